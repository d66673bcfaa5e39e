// Prepares the simulation of a replay from its configuration.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "configuration/configuration.h"
#include "core/result.h"
#include "planner/penstock/penstock_planner.h"
#include "planner/policies/policies.h"
#include "report/run_info.h"
#include "simulation/run.h"
#include "workload/request.h"

namespace penstock::replay {

struct ReplaySetup {
  configuration::Configuration configuration;
  workload::Workload workload;
  simulation::RunOptions options;
  report::RunInfo info;                                                // The caller sets its command.
  planner::PlannerOptions planner{};                                   // Options of Penstock's own policy.
  std::map<std::string, std::vector<planner::PoolSteps>> schedules{};  // By policy: `schedule:FILE`.
};

// Reads the traces and profiles. Errors: traces, step-time models, and contradictions between them.
[[nodiscard]] core::Result<ReplaySetup> prepare_replay(configuration::Configuration configuration);

// Reads the traces, with blocks of the size that the engines have.
[[nodiscard]] core::Result<workload::Workload> load_workload(const configuration::TraceOptions& traces,
                                                             const simulation::RunOptions& options);

// Returns what a reader must know about the engines: their limits, and where the traffic leaves the range of a profile.
[[nodiscard]] std::vector<std::string> engine_notes(const simulation::RunOptions& options,
                                                    const workload::Workload& workload);

// Returns a sentence on how the KV cache of a roofline was computed, or on which limits are those of a measured
// profile; empty for other models.
[[nodiscard]] std::string kv_assumptions(const simulation::PoolSpec& pool);

// Returns the options with a step-time model in each pool, created from its description.
[[nodiscard]] core::Result<simulation::RunOptions> make_run_options(simulation::RunOptions options);

}  // namespace penstock::replay
