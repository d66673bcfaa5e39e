// Renders plans as JSON.
#include <nlohmann/json.hpp>

#include "allocation/renderings.h"
#include "report/document.h"

namespace penstock::allocation {
namespace {

namespace global = planner::global;
using Json = nlohmann::ordered_json;

Json head(const AllocationSetup& setup) {
  Json json;
  json["penstock"] = PENSTOCK_VERSION;
  json["objective"] =
      setup.options.planner.objective == planner::global::Objective::kMaxMin ? "max-min" : "most-traffic";
  Json capacities = Json::array();
  for (const PoolFigures& pool : setup.capacities)
    capacities.push_back({{"deployment", pool.deployment},
                          {"pool", pool.pool},
                          {"requests_per_s", pool.requests_per_s},
                          {"load_tested", pool.tested}});
  json["capacities"] = std::move(capacities);
  return json;
}

Json pools_of(const global::GlobalPlan& plan) {
  Json pools = Json::array();
  for (const global::PoolPlan& pool : plan.pools)
    pools.push_back({{"deployment", pool.deployment},
                     {"pool", pool.pool},
                     {"hardware", pool.hardware},
                     {"replicas", pool.replicas},
                     {"gpus", pool.gpus},
                     {"cost_per_hour", pool.cost_per_hour},
                     {"limited_by", global::to_string(pool.limited_by)}});
  return pools;
}

Json plan_of(const AllocationSetup& setup, const global::GlobalPlan& plan) {
  Json json;
  json["pools"] = pools_of(plan);
  Json& deployments = json["deployments"] = Json::array();
  for (std::size_t d = 0; d < plan.deployments.size(); ++d)
    deployments.push_back({{"name", plan.deployments[d].name},
                           {"priority", setup.deployments[d].deployment.priority},
                           {"weight", setup.deployments[d].deployment.weight},
                           {"demand_rps", setup.deployments[d].deployment.demand_rps},
                           {"kept_rps", plan.deployments[d].kept_rps},
                           {"cost_per_hour", plan.deployments[d].cost_per_hour}});
  Json& classes = json["classes"] = Json::array();
  for (const global::ClassPlan& each : plan.classes) {
    Json of_one = {{"priority", each.priority}, {"value", each.value}, {"value_bound", each.value_bound}};
    if (setup.options.planner.objective == global::Objective::kMaxMin) {
      of_one["level"] = each.level;
      of_one["level_bound"] = each.level_bound;
    }
    classes.push_back(std::move(of_one));
  }
  Json& resources = json["resources"] = Json::array();
  for (const global::ResourcePlan& each : plan.resources)
    resources.push_back({{"name", each.name},
                         {"used", each.used},
                         {"available", each.available},
                         {"value_per_unit", each.value_per_unit},
                         {"gains_class", each.gains_class},
                         {"saving_per_unit", each.saving_per_unit}});
  json["cost_per_hour"] = plan.cost_per_hour;
  json["cost_bound"] = plan.cost_bound;
  json["gap"] = plan.gap;
  json["kept_previous"] = plan.kept_previous;
  return json;
}

Json run_of(const global::OverTime& run) {
  Json json;
  json["gpu_hours"] = run.gpu_hours;
  json["cost"] = run.cost;
  Json& deployments = json["deployments"] = Json::array();
  for (const global::DeploymentTotal& total : run.deployments)
    deployments.push_back({{"name", total.name}, {"requests", total.requests}, {"kept", total.kept}});
  return json;
}

}  // namespace

std::string plan_json(const AllocationSetup& setup, const global::GlobalPlan& plan) {
  Json json = head(setup);
  json["plan"] = plan_of(setup, plan);
  return report::write_json(json, {}) + "\n";
}

std::string runs_json(const AllocationSetup& setup, const AllocationRuns& runs) {
  Json json = head(setup);
  json["every_s"] = core::to_seconds(setup.options.every);
  json["minutes"] = runs.shared.minutes;
  Json shared = run_of(runs.shared);
  Json& intervals = shared["intervals"] = Json::array();
  for (const global::IntervalPlan& interval : runs.shared.intervals)
    intervals.push_back({{"first_minute", interval.first_minute},
                         {"planned_rps", interval.planned_rps},
                         {"gap", interval.plan.gap},
                         {"kept_previous", interval.plan.kept_previous},
                         {"pools", pools_of(interval.plan)}});
  json["shared"] = std::move(shared);
  json["apart"] = run_of(runs.apart);
  json["at_peak"] = run_of(runs.at_peak);
  return report::write_json(json, {}) + "\n";
}

}  // namespace penstock::allocation
