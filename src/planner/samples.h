// Engine samples that are recent enough to be used.
#pragma once

#include <vector>

#include "core/time.h"
#include "signals/observation.h"

namespace penstock::planner {

// Prometheus' default lookback: an instant query does not return a series whose last sample is older.
inline constexpr core::Duration kSampleAgeMax = std::chrono::minutes{5};

// Samples of ready replicas. They point into the observation.
struct ReadySamples {
  std::vector<const signals::ReplicaObservation*> known;
  std::uint32_t missing = 0;  // Ready replicas without a recent sample.
};

[[nodiscard]] inline ReadySamples ready_samples(const signals::PoolObservation& pool, core::Instant now,
                                                core::Duration age_max = kSampleAgeMax) {
  ReadySamples samples;
  for (const signals::ReplicaObservation& replica : pool.replicas) {
    if (replica.state != signals::ReplicaState::kReady) continue;
    if (replica.sample && replica.sample->sampled_at > now - age_max)
      samples.known.push_back(&replica);
    else
      ++samples.missing;
  }
  return samples;
}

}  // namespace penstock::planner
