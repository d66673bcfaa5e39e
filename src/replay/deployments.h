// A replay of several deployments that share a budget of GPUs, under one clock.
#pragma once

#include <functional>
#include <vector>

#include "configuration/configuration.h"
#include "core/result.h"
#include "options/reading.h"
#include "replay/setup.h"
#include "replay/task_pool.h"
#include "report/deployments.h"

namespace penstock::replay {

// Reports deployments without a trace, and options that need a replay of one deployment alone.
void check_deployments(const configuration::Configuration& made, options::Reading& reading);

struct DeploymentsSetup {
  configuration::Configuration configuration;  // Of all.
  std::vector<ReplaySetup> deployments;        // In the order of the configuration, with pools of unique names.
};

// Reads the traces and profiles of all deployments. Every run ends when the longest trace has ended: a deployment whose
// trace is shorter has no requests then. Deployments draw different random numbers from the one seed. Errors: those of
// prepare_replay().
[[nodiscard]] core::Result<DeploymentsSetup> prepare_deployments(configuration::Configuration configuration);

// Runs the policies of the configuration in parallel, each for all deployments together. The budget limits
// Penstock's policy, by the code of the daemon; rules of others do not know it. The results do not depend on the number
// of concurrent runs. The caller sets the command. Errors: those of a run, and of load tests.
[[nodiscard]] core::Result<report::DeploymentsReport> run_deployments(
    const DeploymentsSetup& setup, const std::function<void(const TaskProgress&)>& show);

}  // namespace penstock::replay
