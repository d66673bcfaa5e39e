// The deployments that one planner plans, and the budget that they share.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cli/plan_setup.h"
#include "configuration/configuration.h"
#include "controller/fleet.h"
#include "controller/planner_daemon.h"
#include "core/result.h"
#include "dashboard/recorder.h"
#include "planner/global/shared_budget.h"
#include "simulation/run.h"

namespace penstock::cli {

// All that the planner has for one deployment. Members that follow use those before.
struct PlannedDeployment {
  std::string name;                   // Empty: the configuration has no list of deployments.
  configuration::Configuration made;  // Of this deployment alone. Its pools have names that are unique among all.
  simulation::RunOptions run;
  std::unique_ptr<controller::Fleet> fleet{};
  std::unique_ptr<decision::Policy> policy{};
  std::unique_ptr<controller::PlannerDaemon> daemon{};
  std::unique_ptr<dashboard::Recorder> recorder{};

  // A name for files and objects: "policy" for the only deployment, "policy-chat" for one of several.
  [[nodiscard]] std::string file_name(const std::string& kind) const { return name.empty() ? kind : kind + "-" + name; }
};

// Without fleets, policies and daemons.
[[nodiscard]] core::Result<std::vector<PlannedDeployment>> make_deployments(const configuration::Configuration& made);

// From now on the budget counts the replicas of the fleets, which are made later. The deployments outlive its last use.
void follow_fleets(planner::global::SharedBudget& budget, const std::vector<PlannedDeployment>& deployments);

// Limits the policy of a deployment to the budget, which may be null.
[[nodiscard]] core::Result<std::unique_ptr<decision::Policy>> make_limited_policy(
    const PlanOptions& plan, const configuration::Configuration& made, const simulation::RunOptions& run,
    planner::global::SharedBudget* budget, std::size_t deployment);

// Of all deployments.
[[nodiscard]] std::vector<connect::RecommendedReplicas> recommended(const std::vector<PlannedDeployment>& deployments);

}  // namespace penstock::cli
