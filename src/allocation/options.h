// What a file of `penstock allocate` contains: hardware, a budget, and the deployments that share them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "options/reading.h"
#include "planner/global/global_planner.h"
#include "simulation/run.h"

namespace penstock::allocation {

struct AllocationPool {
  simulation::PoolSpec spec;       // its name is unique in the deployment, by default that of the hardware
  std::string hardware;            // a name of the price list
  std::optional<double> capacity;  // requests/s of one replica within the SLO; none: to be load-tested

  AllocationPool() {
    spec.name.clear();
    spec.min_replicas = 0;
  }
};

// Requests/s: a figure, or how many arrive in a trace.
struct AllocationDemand {
  double rps = 0.0;
  std::string trace;  // a file, "synthetic:…" or "built-in"; empty: rps
  double rate_scale = 1.0;
};

struct AllocationDeployment {
  std::string name;
  int priority = 0;
  double weight = 1.0;
  AllocationDemand demand;
  signals::SloTarget slo;
  std::uint32_t input_tokens = 0, output_tokens = 0;  // Tokens per request; 0: as in the trace.
  std::vector<AllocationPool> pools;  // any number of aggregated pools; one prefill and one decode pool or neither
};

struct AllocationOptions {
  std::vector<planner::global::Hardware> hardware;
  planner::global::Budget budget;
  planner::global::Options planner;
  std::vector<AllocationDeployment> deployments;
  core::Duration every = std::chrono::minutes{5};  // from one plan to the next, where demand comes from traces

  [[nodiscard]] bool has_traces() const;
};

[[nodiscard]] options::Table allocation_table(AllocationOptions& made);

// Sets demands by "NAME=RPS" instead of what the file says, fills in names, and reports contradictions.
void settle_allocation(AllocationOptions& made, const std::vector<std::string>& rates, options::Reading& reading);

}  // namespace penstock::allocation
