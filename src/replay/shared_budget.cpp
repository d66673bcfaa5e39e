#include "replay/shared_budget.h"

namespace penstock::replay {

planner::global::DivisionLimits division_limits(const configuration::Configuration& made) {
  return {made.budget.budget, made.budget.hardware};
}

std::vector<planner::global::DeploymentClaim> first_claims(const configuration::Configuration& made) {
  std::vector<planner::global::DeploymentClaim> claims;
  for (const configuration::Configuration& alone : configuration::configurations_of(made)) {
    const configuration::DeploymentSetup& setup = made.deployments.at(claims.size());
    planner::global::DeploymentClaim& claim = claims.emplace_back();
    claim.name = setup.name;
    claim.priority = setup.priority;
    claim.weight = setup.weight;
    for (const simulation::PoolSpec& spec : alone.run.pools) {
      planner::global::PoolClaim& pool = claim.pools.emplace_back();
      pool.name = spec.name;
      pool.role = spec.role;
      pool.hardware = spec.hardware;
      pool.gpus_per_replica = spec.gpus_per_replica;
      pool.price_per_gpu_hour = spec.price_per_gpu_hour;
      pool.min_replicas = spec.min_replicas;
      pool.max_replicas = spec.max_replicas;
      pool.proposed = pool.target = spec.replicas;
    }
  }
  return claims;
}

std::unique_ptr<planner::global::SharedBudget> make_shared_budget(const configuration::Configuration& made) {
  if (made.deployments.empty() || !made.budget.is_limited()) return nullptr;
  planner::global::Options options;
  options.objective = made.budget.objective;
  return std::make_unique<planner::global::SharedBudget>(division_limits(made), options, first_claims(made));
}

}  // namespace penstock::replay
