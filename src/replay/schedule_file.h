// Files that state the replicas of each pool over time, for the policy `schedule:FILE`.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "configuration/configuration.h"
#include "core/result.h"
#include "planner/policies/policies.h"

namespace penstock::replay {

[[nodiscard]] constexpr bool is_schedule(std::string_view policy) {
  return decision::name_without_settings(policy) == configuration::kSchedule;
}

struct ScheduledPool {
  std::string name;
  std::uint32_t max_replicas = 0;
};

// Reads lines "time,replicas" with one column for each pool, below the header "time,replicas" or "time" and the names
// of the pools in any order. A time is a number of seconds or a duration such as 1h30m. Blank lines, lines that begin
// with # and a byte order mark are left out. Errors have the form file:line: a time that is not above the one before, a
// first time above 0, a missing or additional column, a number of replicas that is not a count or above the maximum of
// the pool. The result is in the order of `pools`.
[[nodiscard]] core::Result<std::vector<planner::PoolSteps>> parse_schedule(std::string_view text,
                                                                           const std::string& file,
                                                                           std::span<const ScheduledPool> pools);
// The errors of a file that cannot be read name --policy.
[[nodiscard]] core::Result<std::vector<planner::PoolSteps>> read_schedule(const std::string& file,
                                                                          std::span<const ScheduledPool> pools);

}  // namespace penstock::replay
