// A YAML file that says which deployments share which budget, up to its contradictions, and rates that overrule it.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "allocation/options.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace penstock;
  const std::string text{reinterpret_cast<const char*>(data), size};
  for (const bool with_rate : {false, true}) {
    allocation::AllocationOptions made;
    const options::Table table = allocation::allocation_table(made);
    options::Reading reading = options::read(table, {"fuzz.yaml", text, {}});
    std::vector<std::string> rates;
    if (with_rate) rates = {"chat=3", text.substr(0, 40)};
    allocation::settle_allocation(made, rates, reading);
    for (const auto& error : reading.problems())
      if (error.message().find('\n') != std::string::npos) std::abort();
    if (!reading.good()) continue;
    // What the planner relies on.
    if (made.hardware.empty() || made.deployments.empty()) std::abort();
    for (const auto& deployment : made.deployments) {
      if (!(deployment.weight > 0.0) || !(deployment.demand.rps >= 0.0) || deployment.pools.empty()) std::abort();
      for (const auto& pool : deployment.pools)
        if (pool.spec.name.empty() || pool.spec.gpus_per_replica == 0 ||
            pool.spec.min_replicas > pool.spec.max_replicas)
          std::abort();
    }
  }
  return 0;
}
