// What tells of trouble before the SLO is missed, or by so few requests that nothing else would say it.
#pragma once

#include <optional>

#include "planner/diagnosis.h"
#include "signals/observation.h"
#include "signals/slo.h"

namespace penstock::planner {

// A request that no replica has, one that has waited in an engine for half of the strictest TTFT there is, or a p95 of the
// last minute over its limit, of however few: the first there is, as a finding of the cause kEarlySigns.
[[nodiscard]] std::optional<Finding> early_sign(const signals::Observation& observation, const signals::SloPolicy& slo);

}  // namespace penstock::planner
