// Every run that a replay is made of: load tests, policies, static fleets.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/result.h"
#include "decision/run_result.h"
#include "replay/setup.h"
#include "replay/task_pool.h"
#include "report/metrics.h"

namespace penstock::replay {

struct ReplayRuns {
  std::vector<decision::RunResult> results;     // in the order of the policies in the configuration
  std::vector<decision::RunResult> frontier;    // by size; for two pools, the best split of each size
  std::vector<report::PlannerMetrics> metrics;  // Metrics at the end of each result, if the configuration names a file.
  std::vector<std::string> notes;               // what the policies were told of a replica's capacity
};

// Runs in parallel; the result does not depend on how many at a time.
//
// Policies that need to know what a replica carries get it from the configuration, or from a load test in simulation,
// one for each pool. Errors: those of a run, and an SLO that not even an idle replica keeps, where a policy needs the
// capacity.
[[nodiscard]] core::Result<ReplayRuns> run_replay(const ReplaySetup& setup,
                                                  const std::function<void(const TaskProgress&)>& show);

}  // namespace penstock::replay
