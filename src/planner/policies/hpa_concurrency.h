// "hpa-concurrency": Kubernetes HPA on a Pods metric with an AverageValue target.
//   value of a pod = running + queued requests, target = 0.8 · capacity.concurrency
//   ratio = Σ values / (target · pods), replicas = |1 - ratio| <= 0.1 ? current : ceil(ratio · pods)
// A pod without a value (starting, or not reporting) counts as at the target for scale-down and as idle for scale-up.
#pragma once

#include <memory>

#include "planner/policy.h"

namespace penstock::planner {

[[nodiscard]] std::unique_ptr<Policy> make_hpa_concurrency(const PolicyContext& context);

}  // namespace penstock::planner
