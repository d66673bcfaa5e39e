// From what a user asked for to what a simulation takes.
#pragma once

#include <string>
#include <vector>

#include "configuration/configuration.h"
#include "core/result.h"
#include "planner/penstock/penstock_planner.h"
#include "report/run_info.h"
#include "simulation/run.h"
#include "workload/request.h"

namespace penstock::replay {

struct ReplaySetup {
  configuration::Configuration configuration;
  workload::Workload workload;
  simulation::RunOptions options;
  report::RunInfo info;               // its command is the caller's to fill in
  planner::PlannerOptions planner{};  // Options of Penstock's own policy.
  double uncertainty = 1.0;           // ≥ 1, more where the traffic leaves what a pool's profile measured
};

// Errors: traces, step-time models, and what of them does not fit together. Reads the files that are named.
[[nodiscard]] core::Result<ReplaySetup> prepare_replay(configuration::Configuration configuration);

// The same options with a step-time model in each pool, made from its description.
[[nodiscard]] core::Result<simulation::RunOptions> make_run_options(simulation::RunOptions options);

}  // namespace penstock::replay
