#include "cli/scaled_resources.h"

#include <fmt/format.h>

#include "connect/kubernetes/scale_target.h"
#include "deployment/names.h"
#include "options/scalars.h"

namespace penstock::cli {

std::vector<deployment::ScaledResource> scaled_resources(const configuration::Configuration& made) {
  std::vector<deployment::ScaledResource> resources;
  for (const simulation::PoolSpec& pool : configuration::all_pools(made)) {
    const auto target = connect::parse_scale_target(pool.kubernetes);
    if (pool.kubernetes.empty() || !target) continue;
    const connect::ApiResource& resource = target->resource;
    const bool switches = pool.switch_time > core::Duration{};
    resources.push_back({resource.group, resource.plural, target->name, target->component.empty(), switches});
    if (target->component.empty()) continue;
    // The adapter of a component may exist or not.
    const connect::ScaleTarget adapter = adapter_of(*target);
    resources.push_back({adapter.resource.group, adapter.resource.plural, adapter.name});
  }
  return resources;
}

namespace {

// In the scope of the deployment that has the pool.
deployment::ScaleTarget target_of(const simulation::PoolSpec& pool, std::size_t index, const std::string& in_namespace,
                                  options::Reading& reading) {
  for (const auto& good : {deployment::check_label_value(pool.name), deployment::check_dns_name(pool.name)})
    if (!good) {
      reading.report(fmt::format("pools[{}].name", index), options::quote(pool.name) + " " + good.error().what,
                     good.error().hint);
      break;
    }
  deployment::ScaleTarget target{pool.name,    "apps/v1",         "Deployment",     pool.name,
                                 in_namespace, pool.min_replicas, pool.max_replicas};
  if (pool.kubernetes.empty()) return target;
  const auto named = connect::parse_scale_target(pool.kubernetes);
  if (named) target.name = named->name;
  if (named && named->resource.group == "apps" && named->resource.plural == "statefulsets")
    target.kind = "StatefulSet";
  else if (!named || named->resource.group != "apps" || named->resource.plural != "deployments")
    reading.report(fmt::format("pools[{}].kubernetes", index),
                   "another autoscaler can scale a Deployment or a StatefulSet, is " + options::quote(pool.kubernetes),
                   "let the planner scale it: `penstock plan --engines kubernetes`");
  return target;
}

}  // namespace

std::vector<deployment::ScaleTarget> scale_targets(const std::string& in_namespace,
                                                   const configuration::Configuration& made,
                                                   options::Reading& reading) {
  const std::string& of_pods = made.gateway.discovery.pods.in_namespace;
  std::vector<deployment::ScaleTarget> targets;
  const std::vector<configuration::Configuration> all = configuration::configurations_of(made);
  for (std::size_t d = 0; d < all.size(); ++d) {
    if (!made.deployments.empty()) reading.set_scope(fmt::format("deployments[{}]", d));
    for (std::size_t i = 0; i < all[d].run.pools.size(); ++i)
      targets.push_back(target_of(all[d].run.pools[i], i, of_pods.empty() ? in_namespace : of_pods, reading));
    reading.set_scope({});
  }
  return targets;
}

void check_never_zero(const configuration::Configuration& made, std::string_view autoscaler,
                      options::Reading& reading) {
  const std::vector<configuration::Configuration> all = configuration::configurations_of(made);
  for (std::size_t d = 0; d < all.size(); ++d) {
    if (!made.deployments.empty()) reading.set_scope(fmt::format("deployments[{}]", d));
    for (std::size_t i = 0; i < all[d].run.pools.size(); ++i) {
      const std::string path = fmt::format("pools[{}].min_replicas", i);
      if (all[d].run.pools[i].min_replicas == 0)
        reading.report(reading.given(path) ? path : "min_replicas",
                       fmt::format("is 0, and {} starts no first replica", autoscaler),
                       "write 1, or let the planner scale it: `penstock manifests planner`");
    }
    reading.set_scope({});
  }
}

}  // namespace penstock::cli
