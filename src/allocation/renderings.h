// What `penstock allocate` found, for people and for programs.
#pragma once

#include <string>

#include "allocation/setup.h"
#include "planner/global/global_planner.h"
#include "planner/global/over_time.h"

namespace penstock::allocation {

// The same demand three ways: shared and planned anew, each deployment alone, one plan for the peak.
struct AllocationRuns {
  planner::global::OverTime shared, apart, at_peak;
};

// Tables and sentences, at most 140 columns as long as names are short; ends with a newline.
[[nodiscard]] std::string plan_in_words(const AllocationSetup& setup, const planner::global::GlobalPlan& plan);
[[nodiscard]] std::string runs_in_words(const AllocationSetup& setup, const AllocationRuns& runs);

// One JSON object, pretty-printed, that ends with a newline. A level that is infinite (all have all they can get) is
// null.
[[nodiscard]] std::string plan_as_json(const AllocationSetup& setup, const planner::global::GlobalPlan& plan);
[[nodiscard]] std::string runs_as_json(const AllocationSetup& setup, const AllocationRuns& runs);

}  // namespace penstock::allocation
