// Engine samples that are recent enough to be used.
#pragma once

#include <cstdint>
#include <optional>
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

// What an engine reported longer ago says nothing about it any more.
inline void forget_old_samples(signals::Observation& observation, core::Duration age_max = kSampleAgeMax) {
  for (signals::PoolObservation& pool : observation.pools)
    for (signals::ReplicaObservation& replica : pool.replicas)
      if (replica.sample && replica.sample->sampled_at <= observation.now - age_max) replica.sample.reset();
}

// Mean prompt of the last minute in tokens; 0 without arrivals.
[[nodiscard]] inline double mean_prompt_tokens(const signals::PoolObservation& pool) {
  const signals::TrafficWindow& traffic = pool.last_minute;
  return traffic.arrivals == 0 ? 0.0
                               : static_cast<double>(traffic.input_tokens) / static_cast<double>(traffic.arrivals);
}

// Mean over the ready replicas whose GPUs have the figure; empty if there is none.
[[nodiscard]] inline std::optional<double> mean_memory_bandwidth(const signals::PoolObservation& pool) {
  double sum = 0.0;
  std::uint32_t count = 0;
  for (const signals::ReplicaObservation& replica : pool.replicas) {
    if (replica.state != signals::ReplicaState::kReady || !replica.sample || !replica.sample->gpu_memory_bandwidth)
      continue;
    sum += *replica.sample->gpu_memory_bandwidth;
    ++count;
  }
  return count > 0 ? std::optional{sum / count} : std::nullopt;
}

// Prompt tokens that wait at an engine. An engine that does not report them has prompts of the mean length.
[[nodiscard]] inline double queued_prompt_tokens(const signals::EngineSample& sample, double mean_prompt) {
  return sample.queued_prefill_tokens ? static_cast<double>(*sample.queued_prefill_tokens)
                                      : mean_prompt * sample.queued_requests;
}

// Share of the KV cache that is in use, or requested by what waits; above 1 if more waits than fits. Empty if the
// engine reports no KV usage.
[[nodiscard]] inline std::optional<double> kv_demand(const signals::EngineSample& sample, double mean_prompt) {
  const std::optional<double> usage = sample.kv_usage();
  if (!usage || !sample.kv_capacity_tokens || *sample.kv_capacity_tokens == 0) return usage;
  const double waiting =
      queued_prompt_tokens(sample, mean_prompt) + static_cast<double>(sample.queued_kv_tokens.value_or(0));
  return *usage + waiting / static_cast<double>(*sample.kv_capacity_tokens);
}

}  // namespace penstock::planner
