// From the planner section of a configuration to Penstock's own policy.
#pragma once

#include <memory>

#include "configuration/configuration.h"
#include "core/result.h"
#include "planner/penstock/penstock_planner.h"
#include "planner/policy.h"
#include "simulation/run.h"
#include "simulation/trials.h"

namespace penstock::replay {

// Reads the trace that warms forecasts up, if there is one. Errors: that trace, and schedules that cannot be read, each
// with its location.
[[nodiscard]] core::Result<planner::PlannerOptions> make_planner_options(
    const configuration::Configuration& configuration);

// Tries fleets in the world of `options`. `planner` is what make_planner_options() gave. `uncertainty`, ≥ 1, multiplies
// the standard headroom: more where the traffic leaves what a pool's profile measured.
[[nodiscard]] std::unique_ptr<decision::Policy> make_penstock(planner::PlannerOptions planner,
                                                              const simulation::RunOptions& options, double uncertainty,
                                                              const simulation::TrialOptions& trials = {});

}  // namespace penstock::replay
