// All runs of a replay: load tests, policies, static fleets.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/result.h"
#include "decision/run_result.h"
#include "replay/setup.h"
#include "replay/task_pool.h"
#include "report/metrics.h"
#include "report/run_info.h"

namespace penstock::replay {

struct ReplayRuns {
  std::vector<decision::RunResult> results;          // In the order of the policies in the configuration.
  std::vector<decision::RunResult> frontier;         // By size; with two pools, the best split of each size.
  std::vector<report::PlannerMetrics> metrics;       // Of the end of each run, if the configuration names a file.
  std::optional<report::FixedFleet> fixed;           // The cheapest that reaches the goal, or the best that was tried.
  std::vector<planner::ReplicaCapacity> capacities;  // By pool; empty unless a policy needs them.
  std::vector<std::string> notes;                    // Capacities of a replica that the policies used; run_notes().
};

// Runs in parallel; the result does not depend on the number of concurrent runs.
//
// Policies that need the capacity of a replica get it from the configuration, or from one simulated load test per pool.
// Errors: those of a run, and an SLO that even an idle replica does not meet, if a policy needs the capacity.
[[nodiscard]] core::Result<ReplayRuns> run_replay(const ReplaySetup& setup,
                                                  const std::function<void(const TaskProgress&)>& show);

}  // namespace penstock::replay
