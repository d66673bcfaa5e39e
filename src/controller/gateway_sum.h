// The states of several gateways as that of one.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "controller/gateway_feed.h"

namespace penstock::controller {

// The state of gateways that route to the same replicas, at least one. Open requests, open transfers and waiting
// requests are sums, and the oldest waiting request is that of all. A replica is eligible or healthy if it is so at any
// of them, and serves as long as it serves at any. Of one gateway the state stays as it is; of several, `boot` joins
// their ids, and `now_s` and `json` are empty.
[[nodiscard]] GatewayState sum_of(std::span<const GatewayState* const> gateways);

// Hot prefixes of gateways, those with the most hits first. The same prefix of two gateways has the sum of their hits.
[[nodiscard]] std::vector<GatewayPrefix> sum_of(std::span<const std::vector<GatewayPrefix>* const> prefixes);

// Totals of all gateways since the start of the planner. They do not decrease when a gateway leaves, or restarts and
// counts from 0 again. Not thread-safe.
class GatewayTotals {
 public:
  // Takes the totals of a gateway, as it last reported them.
  void take(const GatewayState& gateway);
  // Replaces the totals of the state.
  void put_into(GatewayState& state) const;

 private:
  static constexpr std::size_t kGatewaysMax = 256;
  // Refused requests, then the totals of a deferral in their order.
  using Counts = std::array<std::uint64_t, 5>;
  std::vector<std::pair<std::string, Counts>> last_;  // By boot id; the one that reported last comes last.
  Counts sum_{};
};

}  // namespace penstock::controller
