// "hpa-rate": Kubernetes HPA on a Prometheus request rate, as an External metric with an AverageValue target.
//   rate = arrivals of the last minute / its length, target = 0.8 · capacity.requests_per_s
//   replicas = |1 - rate / (target · N)| <= 0.1 ? N : ceil(rate / target), then HPA's default behaviour
#pragma once

#include <memory>

#include "planner/policy.h"

namespace penstock::planner {

[[nodiscard]] std::unique_ptr<Policy> make_hpa_rate(const PolicyContext& context);

}  // namespace penstock::planner
