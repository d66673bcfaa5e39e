// The traffic of a workload as the series that predictors learn from: a past to warm them up with.
#pragma once

#include <vector>

#include "core/time.h"
#include "forecast/traffic.h"
#include "workload/request.h"

namespace penstock::simulation {

// One sample for each whole interval of the workload, oldest first; what comes after the last whole one is left out,
// and of a long workload all before the last forecast::kHistoryMax. Prompts and answers are those of the requests that
// came in the interval: a trace does not say when answers ended. `interval` is above 0. Linear in requests and
// intervals.
[[nodiscard]] std::vector<forecast::TrafficSample> traffic_history(const workload::Workload& workload,
                                                                   core::Duration interval);

}  // namespace penstock::simulation
