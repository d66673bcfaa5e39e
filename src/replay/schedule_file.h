// Files that state the replicas of each pool over time, for the policy `schedule:FILE`.
#pragma once

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

// Reads lines "time,replicas" with one column for each pool, below the header "time,replicas" or "time" and the names
// of the pools. A time is a number of seconds or a duration such as 1h30m. Blank lines and lines that begin with # are
// left out. Errors have the form file:line: a time that is not above the one before, a first time above 0, a missing or
// additional column, a number of replicas that is not a count.
[[nodiscard]] core::Result<std::vector<planner::PoolSteps>> parse_schedule(std::string_view text,
                                                                           const std::string& file,
                                                                           std::span<const std::string> pools);
[[nodiscard]] core::Result<std::vector<planner::PoolSteps>> read_schedule(const std::string& file,
                                                                          std::span<const std::string> pools);

}  // namespace penstock::replay
