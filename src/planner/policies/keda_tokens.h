// "keda-tokens": a KEDA ScaledObject with three Prometheus triggers, whose HPA takes the highest proposal:
//   N_in = ceil(R_in / (C_in · U)), N_out = ceil(R_out / (C_out · U)), N_kv = ceil(Σ KV use / 0.75), U = 0.75
// R_in and R_out are prompt and output tokens per second over the last minute, C_in and C_out those of the load test.
// Prefill pools use N_in, decode pools N_out and N_kv, aggregated ones all three. As in KEDA (ignoreNullValues), a
// missing series counts as zero. With min_replicas 0, KEDA's operator makes the steps from and to 0: it checks every 30
// s, and removes all replicas after 300 s without activity.
#pragma once

#include <memory>

#include "planner/policy.h"

namespace penstock::planner {

[[nodiscard]] std::unique_ptr<Policy> make_keda_tokens(const PolicyContext& context);

}  // namespace penstock::planner
