// Creates Penstock's own policy from the planner section of a configuration.
#pragma once

#include <memory>

#include "configuration/configuration.h"
#include "core/result.h"
#include "planner/penstock/penstock_planner.h"
#include "planner/policy.h"
#include "simulation/run.h"
#include "simulation/trials.h"

namespace penstock::replay {

// Reads the trace that forecasts start with, if there is one. Errors: that trace, and invalid schedules with their
// locations.
[[nodiscard]] core::Result<planner::PlannerOptions> make_planner_options(
    const configuration::Configuration& configuration);

// The policy simulates fleets with `options`. `planner` comes from make_planner_options().
[[nodiscard]] std::unique_ptr<decision::Policy> make_penstock(planner::PlannerOptions planner,
                                                              const simulation::RunOptions& options,
                                                              const simulation::TrialOptions& trials = {});

}  // namespace penstock::replay
