// Limits that a reload would loosen. A file that is cut short lacks keys, and a default may be looser than the value in
// force, so that only a value that is written may loosen a limit while a process runs.
#pragma once

#include <string>
#include <vector>

#include "configuration/configuration.h"
#include "core/result.h"
#include "options/reading.h"

namespace penstock::configuration {

struct LoosenedLimit {
  enum class Process { kGateway, kPlanner };  // The process that keeps the limit.

  Process process = Process::kGateway;
  std::string key;            // "gateway.anonymous", "pools[1].max_replicas"
  std::string before, after;  // Values as text.
  bool is_given = false;      // The file or a flag gives the new value.
  std::string hint;           // What to write if the new value is intended.
};

// Compares what is in force with what was read: access without a key, authentication and encryption of addresses,
// max_replicas and planner.gpu_budget. Pools are compared if their number is the same.
[[nodiscard]] std::vector<LoosenedLimit> loosened_limits(const Configuration& in_force, const Configuration& read,
                                                         const options::Reading& reading);

// An error for each limit whose looser value is not given.
[[nodiscard]] options::Problems check_loosened(const std::vector<LoosenedLimit>& limits);

}  // namespace penstock::configuration
