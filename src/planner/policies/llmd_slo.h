// "llmd-slo": llm-d's SLO-aware KEDA guide (guides/workload-autoscaling, 2026-09), every 15 s.
//   s_raw = max(p90 TTFT / its target, p90 ITL / its target) of the last minute, 0 without traffic
//   s = mean over 45 s of min(s_raw, 2), n = provisioned, r = ready, c = 0 < r < n ? r / n : 1
//   d = s > 0.55 ? n + ceil(n · (s · c / 0.55 - 1)) : s < 0.40 ? n - floor(n · (1 - s / 0.40)) : n
// The result goes to an HPA with an AverageValue of 1: up the greater of 100 % and 4 pods in 60 s with a window of 30
// s, down 1 pod in 120 s with a window of 180 s. A prefill pool uses TTFT only, a decode pool ITL only.
#pragma once

#include <memory>

#include "planner/policy.h"

namespace penstock::planner {

[[nodiscard]] std::unique_ptr<Policy> make_llmd_slo(const PolicyContext& context);

}  // namespace penstock::planner
