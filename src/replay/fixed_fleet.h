// The search for the cheapest fixed fleet that reaches the goal of the SLO.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "core/result.h"

namespace penstock::replay {

// Sizes that a pool may have, 1 ≤ min ≤ max, and the price of one replica, above 0.
struct PoolSizes {
  std::uint32_t min = 1, max = 1;
  double price = 1.0;
  std::uint32_t expected = 0;  // Where the search of a single pool begins, which saves trials; 0: at the minimum.
};

struct FleetTrial {
  bool reaches_goal = false;
  double attainment = 0.0;
};
using FleetSizes = std::vector<std::uint32_t>;  // Of each pool.
using TryFleet = std::function<core::Result<FleetTrial>(const FleetSizes&)>;

// Tries fleets of one or two pools, on the assumption that a replica more never harms: sizes are doubled until the goal
// is reached, then narrowed down. Of two pools, every split that could be cheaper is tried. Returns nothing if no fleet
// reaches the goal. It gives up before the maximum once a fleet of twice the size attains no more. Of a single pool
// above its minimum, the fleet of one replica less was tried and missed the goal. Errors: those of `attempt`.
[[nodiscard]] core::Result<std::optional<FleetSizes>> cheapest_fleet(const std::vector<PoolSizes>& pools,
                                                                     const TryFleet& attempt);

}  // namespace penstock::replay
