// How far the traffic of the gateways behind one address was read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/time.h"

namespace penstock::controller {

// An address may lead to another gateway with each connection, as that of a Service does. Each gateway numbers its
// events by itself and has a boot id, which changes with each of its starts. Not thread-safe.
class GatewayCursors {
 public:
  // Where the pages of the gateway that answered last have ended: the next page is requested from there.
  [[nodiscard]] std::uint64_t after() const { return gateways_.empty() ? 0 : gateways_.front().next; }

  // A gateway answered. Returns true if another one did so between two of its answers, at most once in kReportPause.
  [[nodiscard]] bool answered(const std::string& boot, core::Instant now);
  // A gateway answered on a connection of its own. answered() follows for the connection in use.
  void answered_apart(const std::string& boot);
  // Takes the end of a page of that gateway. Returns false if the page does not begin where its earlier pages have
  // ended: it is to be dropped and requested again.
  [[nodiscard]] bool take(std::uint64_t after, std::uint64_t next);
  void restart();  // All pages are to be read again.

 private:
  static constexpr std::size_t kGatewaysMax = 16;
  static constexpr core::Duration kReportPause = std::chrono::minutes{10};
  struct Gateway {
    std::string boot;
    std::uint64_t next = 0;
  };
  std::vector<Gateway> gateways_;  // The one that answered last comes first.
  std::string apart_;              // Empty: no other gateway answered on a connection of its own.
  std::optional<core::Instant> reported_at_;
};

}  // namespace penstock::controller
