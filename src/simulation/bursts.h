// Minutes whose rate is far above that of the time before: where a fleet that follows the load is too small.
#pragma once

#include <cstdint>
#include <vector>

namespace penstock::simulation {

inline constexpr double kBurstFactor = 2.0;
inline constexpr std::size_t kBurstBeforeMinutes = 10;
inline constexpr std::uint64_t kBurstRequestsMin = 10;  // Fewer requests in a minute are chance.

// `arrivals` has the requests of each minute. A minute is a burst if its rate is above kBurstFactor times the mean rate
// of the ten minutes before it. The first ten minutes are none.
[[nodiscard]] std::vector<bool> burst_minutes(const std::vector<std::uint64_t>& arrivals);

}  // namespace penstock::simulation
