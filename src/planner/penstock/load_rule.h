// Scaling without a latency objective, by KV cache usage and queue length.
#pragma once

#include <cstdint>
#include <optional>

#include "planner/policy.h"
#include "signals/observation.h"

namespace penstock::planner {

struct LoadRuleOptions {
  double kv_target = 0.72;              // Target share of the KV cache that is in use or requested.
  double queue_tokens_target = 8192.0;  // Target number of queued prompt tokens per replica.
  double queue_requests_target = 5.0;   // Target number of queued requests per replica.
  double tolerance = 0.1;               // Relative tolerance within which nothing changes.
  // Target share of the GPU memory bandwidth, where an exporter has it. Decode reads all weights in each step, so that
  // its use says little alone: it raises the load of replicas that are within the tolerance of another target.
  double bandwidth_target = 0.85;
};

// "throughput" targets full replicas and a short queue; "latency" targets half-empty replicas and almost no queue.
[[nodiscard]] LoadRuleOptions throughput_rule();
[[nodiscard]] LoadRuleOptions latency_rule();

// replicas = ⌈ready · max(KV usage / its target, queued prompt tokens / their target, queued requests / their target)⌉
// over ready replicas with reports. Requests that wait in front of the pool count as queued, with prompts of the mean
// length. A figure that an engine does not report is left out. Its running requests as a
// share of `max_sequences` stand for its KV usage; without that limit only an engine that runs nothing is known to use
// nothing. While the KV usage of a replica is unknown, the rule only raises. The use of the GPU memory bandwidth,
// relative to its target, counts once one of the others is within the tolerance of its own. A pool without any report
// keeps its replicas.
[[nodiscard]] PoolDecision by_load(const signals::PoolObservation& pool, const LoadRuleOptions& options,
                                   std::optional<std::uint32_t> max_sequences = std::nullopt);

}  // namespace penstock::planner
