// "kpa": Knative Serving's autoscaler on concurrency (pkg/autoscaler/scaling/autoscaler.go), every 2 s.
//   concurrency = mean over reporting replicas of (running + queued) · ready + requests in front of the pool
//   stable, panic = its mean over 60 s and over 6 s, target = 0.7 · capacity.concurrency, R = max(1, ready)
//   d_stable = ceil(stable / target), d_panic = ceil(panic / target), each held in [floor(R / 2), ceil(1000 · R)]
//   panic mode from the time when ceil(panic / target) / R >= 2 until 60 s after this was last true; then
//   max(d_stable, d_panic), never lower than before in this panic; otherwise d_stable
// A policy that starts with more than one ready replica starts in panic mode, so that it keeps them until it has data.
// It decides while the window of 60 s contains a value; an empty window of 6 s counts as zero.
#pragma once

#include <memory>

#include "planner/policy.h"

namespace penstock::planner {

[[nodiscard]] std::unique_ptr<Policy> make_kpa(const PolicyContext& context);

}  // namespace penstock::planner
