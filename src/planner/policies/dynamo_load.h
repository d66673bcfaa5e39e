// "dynamo-throughput" and "dynamo-latency": the load loop of NVIDIA Dynamo's planner 1.3.1 with the static thresholds
// of its optimization targets (dynamo/planner/core/load_scaling.py), every 5 s, one replica per step.
//   prefill: queued prompt tokens / context length       up when any >= 1.0 (latency 0.1), down when all < 0.1 (= 0)
//   decode:  (scheduled + queued KV tokens) / KV tokens   up when any > 1.0 (0.4), down when all < 0.6 (0.1)
//   aggregated: (scheduled + queued KV + queued prompt tokens) / KV tokens, as decode
// It only observes while the number of ready replicas differs from the target, or while a ready replica does not
// report. Prefill and decode pools wait for each other.
#pragma once

#include <memory>

#include "planner/policy.h"

namespace penstock::planner {

[[nodiscard]] std::unique_ptr<Policy> make_dynamo_throughput(const PolicyContext& context);
[[nodiscard]] std::unique_ptr<Policy> make_dynamo_latency(const PolicyContext& context);

}  // namespace penstock::planner
