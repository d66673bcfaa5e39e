// Scaling without any target for latency: by how full the KV cache and the slots are, and by what waits.
#pragma once

#include <cstdint>

#include "planner/policy.h"
#include "signals/observation.h"

namespace penstock::planner {

struct LoadRuleOptions {
  double kv_target = 0.72;              // of the KV cache in use and asked for …
  double queue_tokens_target = 8192.0;  // … and prompt tokens that wait on a replica, at which the fleet is right
  double tolerance = 0.1;               // nothing changes within so much of them
};

// "throughput": full replicas, a short queue. "latency": half-empty ones and hardly any queue.
[[nodiscard]] LoadRuleOptions throughput_rule();
[[nodiscard]] LoadRuleOptions latency_rule();

// replicas = ⌈ready · max(kv use / its target, queued prompt tokens / their target)⌉, over ready replicas that were heard
// of. A pool that nobody hears of keeps what it has.
[[nodiscard]] PoolDecision by_load(const signals::PoolObservation& pool, const LoadRuleOptions& options);

}  // namespace penstock::planner
