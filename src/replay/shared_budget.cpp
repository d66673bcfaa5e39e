#include "replay/shared_budget.h"

#include "simulation/run.h"

namespace penstock::replay {

planner::global::DivisionLimits division_limits(const configuration::Configuration& made) {
  return {made.budget.budget, made.budget.hardware};
}

std::vector<planner::global::DeploymentClaim> first_claims(const configuration::Configuration& made) {
  std::vector<planner::global::DeploymentClaim> claims;
  for (const configuration::Configuration& alone : configuration::configurations_of(made)) {
    const configuration::DeploymentSetup& setup = made.deployments.at(claims.size());
    claims.push_back({setup.name, setup.priority, setup.weight, simulation::pool_claims(alone.run.pools)});
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
