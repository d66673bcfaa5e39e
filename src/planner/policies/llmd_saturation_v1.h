// "llmd-saturation-v1": the percentage rule of llm-d's workload variant autoscaler (internal/saturation/analyzer.go),
// every 15 s, on the peaks of the last minute.
//   a replica is saturated when KV >= 0.80 or queue >= 5; over the n others: spare_kv = mean(0.80 - KV), spare_queue =
//   mean(5 - queue), both 0 when n = 0
//   +1 when spare_kv < 0.10 or spare_queue < 3
//   -1 when n >= 2 and, with the load of each times n / (n - 1), spare_kv >= 0.10 and spare_queue >= 3
// It waits while the target, the provisioned replicas and the reporting replicas differ in number.
#pragma once

#include <memory>

#include "planner/policy.h"

namespace penstock::planner {

[[nodiscard]] std::unique_ptr<Policy> make_llmd_saturation_v1(const PolicyContext& context);

}  // namespace penstock::planner
