// The planner's trials, run in the same world as a replay.
#pragma once

#include <memory>

#include "planner/penstock/trials.h"
#include "simulation/run.h"

namespace penstock::simulation {

struct TrialOptions {
  double step_time_factor = 1.0;  // steps take so many times as long as in the world: a profile that is off
};

// `options` say how the fleet is built; faults are left out, because they cannot be predicted.
[[nodiscard]] std::unique_ptr<planner::FleetTrials> make_trials(const RunOptions& options,
                                                                const TrialOptions& trials = {});

}  // namespace penstock::simulation
