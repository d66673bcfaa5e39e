// The state of a control loop as plain data, so that another process can continue with it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/time.h"

namespace penstock::decision {

struct PolicyState {
  // Version of the values below. Another version is not restored.
  static constexpr std::int64_t kVersion = 13;
  // An older state is not restored: its windows have passed, and the traffic may be another.
  static constexpr core::Duration kAgeMax = std::chrono::hours{6};

  std::int64_t version = kVersion;
  std::string policy;
  std::vector<std::string> pools;  // Names, in the order of the observation.
  core::Instant at;                // Time of the last tick.
  std::string values;              // as core::StateArchive writes them
};

}  // namespace penstock::decision
