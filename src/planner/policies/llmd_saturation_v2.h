// "llmd-saturation-v2": the token rule of llm-d's workload variant autoscaler
// (internal/engines/analyzers/saturation_v2/analyzer.go), every 15 s, on the peaks of the last minute.
//   demand of a replica = KV use · KV tokens + queue · I
//   demand of n requests in front of the pool = n · I (prefill) or n · (I + O)
//   k1 = 0.80 · KV tokens
//   k2 = its tokens in use while its queue >= 5, else the mean of the last 10 such in the same band of O (< 100, < 500,
//        more), else min(B · O / (I + O), S) · (I + O / 2), else k1
//   capacity = median over replicas of min(k1, k2)
//   demand / 0.85 > (ready + starting) · capacity: + ceil(lack / capacity)
//   ready · capacity > demand / 0.70: - floor(excess / capacity); in both at most 10 replicas in 15 s
// I and O are mean prompt and output tokens (O = 1 in a prefill pool), B tokens and S sequences of a batch.
#pragma once

#include <memory>

#include "planner/policy.h"

namespace penstock::planner {

[[nodiscard]] std::unique_ptr<Policy> make_llmd_saturation_v2(const PolicyContext& context);

}  // namespace penstock::planner
