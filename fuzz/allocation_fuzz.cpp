// A YAML file that says which deployments share which budget, up to its contradictions, and rates that overrule it.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "config/allocation.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace penstock::config;
  const std::string text{reinterpret_cast<const char*>(data), size};
  for (const bool with_rate : {false, true}) {
    AllocationSources sources{"fuzz.yaml", text, {}};
    if (with_rate) sources.rates = {"chat=3", text.substr(0, 40)};
    const auto loaded = load_allocation(sources);
    if (!loaded) {
      if (loaded.error().empty()) std::abort();
      for (const auto& error : loaded.error())
        if (error.message().find('\n') != std::string::npos) std::abort();
      continue;
    }
    // What the planner counts on.
    if (loaded->hardware.empty() || loaded->deployments.empty()) std::abort();
    for (const auto& deployment : loaded->deployments) {
      if (!(deployment.weight > 0.0) || !(deployment.demand.rps >= 0.0) || deployment.pools.empty()) std::abort();
      for (const auto& pool : deployment.pools)
        if (pool.name.empty() || pool.gpus == 0 || pool.min_replicas > pool.max_replicas) std::abort();
    }
  }
  return 0;
}
