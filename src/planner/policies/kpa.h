// "kpa": Knative Serving's autoscaler on concurrency (pkg/autoscaler/scaling/autoscaler.go), every 2 s.
//   concurrency = mean over heard replicas of (running + queued) · ready + requests in front of the pool
//   stable, panic = its mean over 60 s and over 6 s, target = 0.7 · capacity.concurrency, R = max(1, ready)
//   d_stable = ceil(stable / target), d_panic = ceil(panic / target), each held in [floor(R / 2), ceil(1000 · R)]
//   panicking from the moment ceil(panic / target) / R >= 2 until 60 s after it was last so; then
//   max(d_stable, d_panic), never less than before in this panic; otherwise d_stable
// A policy that finds more than one ready replica at its start starts in panic, so that it keeps them until it knows
// more. It decides for as long as the window of 60 s holds a value; an empty window of 6 s counts as zero.
#pragma once

#include <memory>

#include "planner/policy.h"

namespace penstock::planner {

[[nodiscard]] std::unique_ptr<Policy> make_kpa(const PolicyContext& context);

}  // namespace penstock::planner
