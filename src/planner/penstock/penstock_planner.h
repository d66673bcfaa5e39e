// Penstock's policy: simulate before scaling.
#pragma once

#include <memory>

#include "planner/penstock/planner_options.h"
#include "planner/penstock/trials.h"
#include "planner/policy.h"
#include "signals/slo.h"

namespace penstock::planner {

// Runs every 5 s. Observations are checked; the load loop simulates fleets on the traffic of the last minutes and on
// its likely multiples until another replica is ready; the throughput loop simulates them at the forecast rate, and is
// a lower bound where the forecast exceeds these. Both choose the cheapest fleet that meets the goal of every
// objective. If a loop has not finished in time, the token formula is used, and the reason says so. If the SLO burns
// although simulations call the fleet large enough, the fleet grows step by step. Scheduled floors and warm replicas
// follow, guardrails come last.
[[nodiscard]] std::unique_ptr<Policy> make_penstock_planner(std::shared_ptr<FleetTrials> trials,
                                                            const signals::SloPolicy& slo,
                                                            const PlannerOptions& options = {});

}  // namespace penstock::planner
