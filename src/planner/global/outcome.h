// Converts a solution into a plan: decides whether it is worth a change, and names the limit of each pool.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "planner/global/global_planner.h"
#include "planner/global/inputs.h"

namespace penstock::planner::global {

struct Solution {
  std::vector<Mix> mixes;  // By deployment, in the order of the inputs, as the figures below.
  std::vector<ClassPlan> classes;
  std::vector<ResourcePlan> resources;  // Only the prices.
  double cost_per_hour = 0.0, cost_bound = 0.0;
  bool kept_previous = false;
};

// Served share of the demand divided by the weight; infinite for a deployment that is not limited.
[[nodiscard]] double level_of(const PlannedDeployment& planned, double kept_rps);

// Returns the steps that equal these fleets; empty if a pool is unknown or no step has its replicas.
[[nodiscard]] std::optional<std::vector<std::uint32_t>> previous_steps(const PlannedDeployment& planned,
                                                                       const std::vector<PoolReplicas>& previous);

// Replaces the solution by the previous plan if that fits and the solution is not worth the change.
void keep_previous(const Inputs& inputs, const Options& options, Solution& solution);

[[nodiscard]] GlobalPlan rendered(const Inputs& inputs, const Options& options, const Solution& solution);

}  // namespace penstock::planner::global
