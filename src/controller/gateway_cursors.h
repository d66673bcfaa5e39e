// How far the traffic of each gateway was read, and whether one address leads to several gateways.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/time.h"

namespace penstock::controller {

// Where the pages of each gateway have ended. Each gateway numbers its events by itself and has a boot id, which
// changes with each of its starts; the address at which it answers does not matter. Not thread-safe.
class GatewayCursors {
 public:
  // The next page of the gateway is requested from here.
  [[nodiscard]] std::uint64_t after(const std::string& boot) const;
  // Takes the end of a page. Returns false if the page does not begin where earlier pages of the gateway have ended: it
  // is to be dropped and requested again.
  [[nodiscard]] bool take(const std::string& boot, std::uint64_t after, std::uint64_t next);
  void restart();  // All pages are to be read again.

 private:
  static constexpr std::size_t kGatewaysMax = 256;
  struct Gateway {
    std::string boot;
    std::uint64_t next = 0;
  };
  std::vector<Gateway> gateways_;  // The one that was read last comes last.
};

// Notices that an address leads to another gateway with each connection, as that of a Service does. A gateway that
// restarts is no other one. Not thread-safe.
class SharedAddress {
 public:
  // A gateway answered. Returns true if another one did so between two of its answers, at most once in kReportPause.
  [[nodiscard]] bool answered(const std::string& boot, core::Instant now);
  // A gateway answered on a connection of its own. answered() follows for the connection in use.
  void answered_apart(const std::string& boot);

 private:
  static constexpr std::size_t kGatewaysMax = 16;
  static constexpr core::Duration kReportPause = std::chrono::minutes{10};
  std::vector<std::string> boots_;  // The one that answered last comes first.
  std::string apart_;               // Empty: no other gateway answered on a connection of its own.
  std::optional<core::Instant> reported_at_;
};

}  // namespace penstock::controller
