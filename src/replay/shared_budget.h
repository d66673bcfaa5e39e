// The budget that the deployments of a configuration share.
#pragma once

#include <memory>
#include <vector>

#include "configuration/configuration.h"
#include "planner/global/shared_budget.h"

namespace penstock::replay {

[[nodiscard]] planner::global::DivisionLimits division_limits(const configuration::Configuration& made);

// The deployments with the replicas of the start, which need no step-time models.
[[nodiscard]] std::vector<planner::global::DeploymentClaim> first_claims(const configuration::Configuration& made);

// Null if there is no budget.
[[nodiscard]] std::unique_ptr<planner::global::SharedBudget> make_shared_budget(
    const configuration::Configuration& made);

}  // namespace penstock::replay
