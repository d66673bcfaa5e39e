// "apa": AIBrix' PodAutoscaler, strategy APA (pkg/controller/podautoscaler/algorithm/apa.go), every 10 s.
//   r = mean over 180 s of the mean over reporting replicas of the metric / its target
//   r > 1.1: min(ceil(N · r), ceil(2 · N)); r < 0.9: max(ceil(N · r), floor(N / 2)); otherwise N
//   while R of the N are ready and others start: up, ceil(R · r) in [N, the result above]; down, ceil(R · r + N - R) in
//   [the result above, N], so starting replicas count as idle for scale-up and as at the target for scale-down
//   then the highest recommendation of the last 300 s
// The metric is KV use with target 0.5; for prefill pools it is queued requests with target 10. N is the current
// target.
#pragma once

#include <memory>

#include "planner/policy.h"

namespace penstock::planner {

[[nodiscard]] std::unique_ptr<Policy> make_apa(const PolicyContext& context);

}  // namespace penstock::planner
