// The part of the GPU cost of a run that prompt tokens cause.
#pragma once

#include <vector>

#include "decision/run_result.h"
#include "simulation/fleet.h"
#include "simulation/run.h"

namespace penstock::simulation {

// Range 0 to 1. With prefill and decode pools, what prefill costs. Of several aggregated pools, each bears the part of
// its own engine and of the requests that it served. `result` has its requests and replicas; where nothing completed,
// its share is returned.
[[nodiscard]] double share_of_input(const FleetTotals& totals, const decision::RunResult& result,
                                    const std::vector<PoolSpec>& pools);

}  // namespace penstock::simulation
