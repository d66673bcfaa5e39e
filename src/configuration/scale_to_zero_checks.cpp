// Keys that pools with min_replicas: 0 need.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>

#include "configuration/configuration.h"
#include "options/scalars.h"

namespace penstock::configuration {
namespace {

using options::format_duration;

constexpr core::Duration kColdStartQueueTime = std::chrono::minutes{10};

void settle_wait(dispatch::ClassOptions& options, const std::string& section, bool scales_to_zero, Reading& reading) {
  const std::string path = section + ".cold_start_queue_time";
  if (!reading.given(path)) {
    options.cold_start_queue_time = scales_to_zero && options.queue_time > core::Duration{}
                                        ? std::max(options.queue_time, kColdStartQueueTime)
                                        : options.queue_time;
    return;
  }
  if (options.cold_start_queue_time < options.queue_time && reading.are_read({path, section + ".queue_time"}))
    reading.report(path, fmt::format("must be at least queue_time ({}), is {}", format_duration(options.queue_time),
                                     format_duration(options.cold_start_queue_time)));
}

bool finds_replicas(const gateway::DiscoveryOptions& discovery) {
  return !discovery.replicas.empty() || !discovery.files.empty() || !discovery.dns.empty() ||
         discovery.pods.follows_any();
}

bool may_have_none(const simulation::PoolSpec& pool) { return pool.min_replicas == 0; }

// Of the first pool that may have no replica, in any deployment.
std::optional<std::string> path_of_zero(const Configuration& made, const Reading& reading) {
  const auto path_in = [&](const auto& pools, const std::string& scope) {
    const auto index = std::ranges::find_if(pools, may_have_none) - pools.begin();
    return reading.first_given(
        {fmt::format("{}pools[{}].min_replicas", scope, index), scope + "min_replicas", "min_replicas"});
  };
  if (made.deployments.empty())
    return std::ranges::any_of(made.run.pools, may_have_none) ? std::optional{path_in(made.run.pools, {})}
                                                              : std::nullopt;
  for (std::size_t i = 0; i < made.deployments.size(); ++i)
    if (const auto& each = made.deployments[i];
        may_have_none(each.pool) || std::ranges::any_of(each.run.pools, may_have_none))
      return path_in(each.run.pools, fmt::format("deployments[{}].", i));
  return std::nullopt;
}

}  // namespace

void settle_scale_to_zero(Configuration& made, Reading& reading) {
  const std::optional<std::string> path = path_of_zero(made, reading);
  const bool scales_to_zero = path.has_value();
  dispatch::DispatchOptions& dispatch = made.gateway.options.dispatch;
  settle_wait(dispatch.interactive, "classes.interactive", scales_to_zero, reading);
  settle_wait(dispatch.batch, "classes.batch", scales_to_zero, reading);
  if (!scales_to_zero) {
    // Annotations of objects may say 0.
    const bool has_pods =
        std::ranges::any_of(made.run.pools, [](const auto& each) { return !each.kubernetes.empty(); });
    if (reading.given("planner.scale_to_zero_after") && !has_pods && reading.is_read("planner.scale_to_zero_after"))
      reading.report("planner.scale_to_zero_after", "has no effect, since no pool has min_replicas: 0");
    return;
  }
  if (!finds_replicas(made.gateway.discovery) || !dispatch.models.empty() || !reading.is_read("models")) return;
  reading.report(*path, "is 0, and a gateway that starts while there is no replica does not know the models",
                 "name them under models, as models: [{name: MODEL}]");
}

}  // namespace penstock::configuration
