// The file of `penstock allocate`: hardware, a budget, and the deployments that share them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "options/reading.h"
#include "planner/global/global_planner.h"
#include "simulation/run.h"

namespace penstock::allocation {

struct AllocationPool {
  simulation::PoolSpec spec;       // The name is unique in the deployment; by default that of the hardware.
  std::string hardware;            // A name of the price list.
  std::optional<double> capacity;  // Requests/s of one replica within the SLO; empty: load-tested.

  AllocationPool() {
    spec.name.clear();
    spec.min_replicas = 0;
  }
};

// Requests/s: a constant, or the arrivals of a trace.
struct AllocationDemand {
  double rps = 0.0;
  std::string trace;  // A file, "synthetic:…" or "built-in"; empty: `rps` is used.
  double rate_scale = 1.0;
};

struct AllocationDeployment {
  std::string name;
  int priority = 0;
  double weight = 1.0;
  AllocationDemand demand;
  signals::SloTarget slo;
  std::uint32_t input_tokens = 0, output_tokens = 0;  // Per request; 0: as in the trace.
  std::vector<AllocationPool> pools;  // Any number of aggregated pools; prefill and decode: one of each or neither.
};

struct AllocationOptions {
  std::vector<planner::global::Hardware> hardware;
  planner::global::Budget budget;
  planner::global::Options planner;
  std::vector<AllocationDeployment> deployments;
  core::Duration every = std::chrono::minutes{5};  // Interval of plans, if demand comes from traces.

  [[nodiscard]] bool has_traces() const;
};

[[nodiscard]] options::Table allocation_table(AllocationOptions& made);

// Overrides demands by "NAME=RPS", sets default names, and reports contradictions.
void settle_allocation(AllocationOptions& made, const std::vector<std::string>& rates, options::Reading& reading);

}  // namespace penstock::allocation
