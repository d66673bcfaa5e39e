// Evidence of the GPUs and of memories that will be full.
#pragma once

#include <algorithm>
#include <optional>

#include "planner/policy.h"
#include "planner/samples.h"

namespace penstock::planner {

// Adds the mean GPU utilisation, and the shortest times until a KV cache and a GPU memory are full, over the ready
// replicas that report them. Figures that no replica reports are left out.
inline void add_memory_evidence(const signals::PoolObservation& pool, core::Instant now, PoolDecision& decision) {
  std::optional<core::Duration> kv_full_in, memory_full_in;
  double utilisation = 0.0;
  int with_gpus = 0;
  const auto shorten = [](std::optional<core::Duration>& least, const std::optional<core::Duration>& other) {
    if (other) least = std::min(least.value_or(*other), *other);
  };
  for (const signals::ReplicaObservation* replica : ready_samples(pool, now).known) {
    shorten(kv_full_in, replica->sample->kv_full_in);
    shorten(memory_full_in, replica->sample->gpu_memory_full_in);
    if (!replica->sample->gpu_utilisation) continue;
    utilisation += *replica->sample->gpu_utilisation;
    ++with_gpus;
  }
  if (with_gpus > 0) decision.evidence.push_back({"gpu_utilisation", utilisation / with_gpus, "share"});
  if (kv_full_in) decision.evidence.push_back({"kv_full_in", core::to_seconds(*kv_full_in), "s"});
  if (memory_full_in) decision.evidence.push_back({"gpu_memory_full_in", core::to_seconds(*memory_full_in), "s"});
}

}  // namespace penstock::planner
