// Signs of trouble before the SLO is missed, or while too few requests miss it to be noticed otherwise.
#pragma once

#include <optional>

#include "planner/diagnosis.h"
#include "signals/observation.h"
#include "signals/slo.h"

namespace penstock::planner {

// Returns the first of these as a finding of the cause kEarlySigns: a request without a replica, a request that has
// waited in an engine for half of the strictest TTFT, or a p95 of the last minute above its limit. With segments, each
// objective has the p95 of its own requests.
[[nodiscard]] std::optional<Finding> early_sign(const signals::Observation& observation, const signals::SloPolicy& slo);

}  // namespace penstock::planner
