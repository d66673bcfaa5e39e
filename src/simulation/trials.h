// The planner's trials, run in the same world as a replay.
#pragma once

#include <memory>

#include "planner/trials.h"
#include "simulation/run.h"

namespace penstock::simulation {

// `options` say how the fleet is built; faults are left out, for nobody can foresee them. An output length that is not
// known yet is drawn from those that are.
[[nodiscard]] std::unique_ptr<planner::FleetTrials> make_trials(const RunOptions& options);

}  // namespace penstock::simulation
