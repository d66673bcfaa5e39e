#include "cli/plan_deployments.h"

#include <utility>

#include "replay/setup.h"

namespace penstock::cli {
namespace {

std::vector<planner::global::PoolCounts> counts_of(const PlannedDeployment& deployment) {
  std::vector<planner::global::PoolCounts> counts;
  if (!deployment.fleet || !deployment.fleet->unknown_because().empty()) return counts;
  for (std::size_t pool = 0; pool < deployment.run.pools.size(); ++pool) {
    signals::PoolObservation seen;
    deployment.fleet->fill(pool, seen);
    counts.push_back({seen.target_replicas, seen.staying(), seen.leaving()});
  }
  return counts;
}

}  // namespace

core::Result<std::vector<PlannedDeployment>> make_deployments(const configuration::Configuration& made) {
  std::vector<PlannedDeployment> deployments;
  for (configuration::Configuration& alone : configuration::configurations_of(made)) {
    auto run = replay::make_run_options(alone.run);
    if (!run) return tl::make_unexpected(run.error());
    const std::string name = made.deployments.empty() ? "" : made.deployments[deployments.size()].name;
    PlannedDeployment& planned = deployments.emplace_back();
    planned.name = name;
    planned.made = std::move(alone);
    planned.run = *std::move(run);
  }
  return deployments;
}

void follow_fleets(planner::global::SharedBudget& budget, const std::vector<PlannedDeployment>& deployments) {
  budget.set_counts([&deployments](std::size_t deployment) { return counts_of(deployments[deployment]); });
}

core::Result<std::unique_ptr<decision::Policy>> make_limited_policy(const PlanOptions& plan,
                                                                    const configuration::Configuration& made,
                                                                    const simulation::RunOptions& run,
                                                                    planner::global::SharedBudget* budget,
                                                                    std::size_t deployment) {
  auto policy = make_live_policy(plan, made, run);
  if (!policy || budget == nullptr) return policy;
  return budget->limited(deployment, *std::move(policy));
}

std::vector<connect::RecommendedReplicas> recommended(const std::vector<PlannedDeployment>& deployments) {
  std::vector<connect::RecommendedReplicas> all;
  for (const PlannedDeployment& deployment : deployments)
    for (connect::RecommendedReplicas& pool : deployment.daemon->recommended()) all.push_back(std::move(pool));
  return all;
}

}  // namespace penstock::cli
