#include "cli/scaled_resources.h"

#include "connect/kubernetes/scale_target.h"

namespace penstock::cli {

std::vector<deployment::ScaledResource> scaled_resources(const configuration::Configuration& made) {
  std::vector<deployment::ScaledResource> resources;
  for (const simulation::PoolSpec& pool : made.run.pools) {
    const auto target = connect::parse_scale_target(pool.kubernetes);
    if (pool.kubernetes.empty() || !target) continue;
    const connect::ApiResource& resource = target->resource;
    resources.push_back({resource.group, resource.plural, target->name, target->component.empty()});
    if (target->component.empty()) continue;
    // The adapter of a component may exist or not.
    const connect::ScaleTarget adapter = adapter_of(*target);
    resources.push_back({adapter.resource.group, adapter.resource.plural, adapter.name});
  }
  return resources;
}

}  // namespace penstock::cli
