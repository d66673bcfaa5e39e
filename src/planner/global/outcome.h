// From a solution to a plan: whether it is worth a change, and what limited each pool.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "planner/global/global_planner.h"
#include "planner/global/inputs.h"

namespace penstock::planner::global {

struct Solution {
  std::vector<Mix> mixes;  // by deployment, in the order of the inputs, as the figures below
  std::vector<ClassPlan> classes;
  std::vector<ResourcePlan> resources;  // the prices only
  double cost_per_hour = 0.0, cost_bound = 0.0;
  bool kept_previous = false;
};

// Share of the demand that is kept, over the weight; infinite for a deployment that has all it can get.
[[nodiscard]] double level_of(const PlannedDeployment& planned, double kept_rps);

// The steps that are exactly these fleets; none where a pool is unknown or no step has its replicas.
[[nodiscard]] std::optional<std::vector<std::uint32_t>> previous_steps(const PlannedDeployment& planned,
                                                                       const std::vector<PoolReplicas>& previous);

// Puts the previous plan in the solution's place where it fits and the solution is not worth the change.
void keep_previous(const Inputs& inputs, const Options& options, Solution& solution);

[[nodiscard]] GlobalPlan rendered(const Inputs& inputs, const Options& options, const Solution& solution);

}  // namespace penstock::planner::global
