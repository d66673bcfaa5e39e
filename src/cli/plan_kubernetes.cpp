#include "cli/plan_kubernetes.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "connect/kubernetes/access.h"
#include "connect/kubernetes/scale_target.h"
#include "controller/kubernetes_fleet.h"
#include "net/access.h"
#include "signals/role_switch.h"

namespace penstock::cli {

core::Result<std::unique_ptr<controller::Fleet>> open_kubernetes_fleet(
    const PlanOptions& plan, const configuration::Configuration& made, const simulation::RunOptions& run,
    controller::EngineWatchOptions watch, net::Loop& loop, net::Client& client, logging::Log& log,
    connect::EventWriter& events, std::function<bool()> may_act) {
  const gateway::PodOptions& pods = made.gateway.discovery.pods;
  const std::string& kubeconfig = plan.autoscalers.kubeconfig.empty() ? pods.kubeconfig : plan.autoscalers.kubeconfig;
  auto access = connect::find_kubernetes_access(kubeconfig);
  if (!access) return tl::make_unexpected(access.error());
  controller::KubernetesFleetOptions options;
  options.in_namespace = pods.in_namespace.empty() ? access->default_namespace : pods.in_namespace;
  options.port = pods.port;
  options.api.access = *std::move(access);
  options.api.may_write = std::move(may_act);
  // Planners that lost the API server together return at different times.
  options.api.seed = std::hash<std::string>{}(net::make_token());
  options.engines = std::move(watch);
  options.limits.manual_hold = made.planner.kubernetes.manual_hold;
  options.limits.pending_timeout = made.planner.kubernetes.pending_timeout;
  const std::vector<std::string>& single = made.planner.kubernetes.single_node;
  for (std::size_t i = 0; i < run.pools.size(); ++i) {
    const simulation::PoolSpec& pool = run.pools[i];
    if (pool.kubernetes.empty())
      return core::invalid_input(fmt::format("pools[{}].kubernetes", i), "is missing",
                                 "name the object to scale, such as deployment/NAME");
    auto target = connect::parse_scale_target(pool.kubernetes);
    if (!target) return tl::make_unexpected(target.error());
    options.pools.push_back({pool.name, *std::move(target), pool.gpus_per_replica,
                             std::find(single.begin(), single.end(), pool.name) != single.end(), pool.start_up,
                             pool.role});
    if (const auto partner = signals::switch_partner(run.pools, i))
      options.pools.back().role_switch = {run.pools[*partner].name, pool.switch_time, pool.start_up};
  }
  auto fleet = controller::KubernetesFleet::start(loop, client, log, std::move(options));
  if (!fleet) return tl::make_unexpected(fleet.error());
  (*fleet)->write_events(events);
  return *std::move(fleet);
}

}  // namespace penstock::cli
