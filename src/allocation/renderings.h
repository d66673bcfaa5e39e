// Renders the result of `penstock allocate` as text and as JSON.
#pragma once

#include <string>

#include "allocation/setup.h"
#include "planner/global/global_planner.h"
#include "planner/global/over_time.h"

namespace penstock::allocation {

// Three plans for the same demand: shared and replanned, each deployment alone, and one plan for the peak.
struct AllocationRuns {
  planner::global::OverTime shared, apart, at_peak;
};

// Tables and sentences of at most 140 columns if names are short. Ends with a newline.
[[nodiscard]] std::string plan_text(const AllocationSetup& setup, const planner::global::GlobalPlan& plan);
[[nodiscard]] std::string runs_text(const AllocationSetup& setup, const AllocationRuns& runs);

// One JSON object, pretty-printed. Ends with a newline. An infinite level (every deployment has its maximum) is null.
[[nodiscard]] std::string plan_json(const AllocationSetup& setup, const planner::global::GlobalPlan& plan);
[[nodiscard]] std::string runs_json(const AllocationSetup& setup, const AllocationRuns& runs);

}  // namespace penstock::allocation
