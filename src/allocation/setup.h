// Prepares the input of the global planner: load tests, offers of pools, series of traffic.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "allocation/options.h"
#include "core/result.h"
#include "planner/global/over_time.h"
#include "replay/task_pool.h"

namespace penstock::allocation {

struct PoolFigures {
  std::string deployment, pool;
  double requests_per_s = 0.0;  // Capacity of one replica within the SLO.
  bool tested = false;          // By a simulated load test; otherwise given.
};

struct AllocationSetup {
  AllocationOptions options;
  std::vector<planner::global::ChangingDeployment> deployments;  // Demand as in the file; 0 with a trace.
  std::vector<PoolFigures> capacities;                           // By deployment and pool, in the order of the file.
};

// Reads the traces and the engines' files and load-tests every pool whose capacity is not given: about 32 runs of 2,000
// requests each. Errors: engines, traces, and SLOs that one replica does not meet, with their locations.
[[nodiscard]] tl::expected<AllocationSetup, options::Problems> prepare_allocation(
    AllocationOptions options, const options::Reading& reading, std::uint32_t jobs,
    const std::function<void(const replay::TaskProgress&)>& show);

}  // namespace penstock::allocation
