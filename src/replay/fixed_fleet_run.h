// Fixed fleets in simulation, and the search for the cheapest that reaches the goal of the SLO.
#pragma once

#include <cstdint>
#include <functional>
#include <map>

#include "core/result.h"
#include "decision/run_result.h"
#include "replay/fixed_fleet.h"
#include "report/run_info.h"
#include "simulation/run.h"
#include "workload/request.h"

namespace penstock::replay {

// The same options with that many replicas of each pool, from the start to the end.
[[nodiscard]] simulation::RunOptions fixed_at(simulation::RunOptions options, const FleetSizes& replicas);

struct FixedFleetSearch {
  std::map<FleetSizes, decision::RunResult> tried;
  FleetSizes chosen;  // One of them: the cheapest that reaches the goal, or the one with the highest attainment.
  bool reaches_goal = false;

  [[nodiscard]] const decision::RunResult& result() const { return tried.at(chosen); }
};

// Runs fixed fleets within the bounds of the pools, as cheapest_fleet() requests them; `expected` is the size with
// which the search of a single pool begins. `progress` may be empty. Errors: those of a run.
[[nodiscard]] core::Result<FixedFleetSearch> find_fixed_fleet(const workload::Workload& workload,
                                                              const simulation::RunOptions& options,
                                                              const std::function<void(double share_done)>& progress,
                                                              std::uint32_t expected = 0);

}  // namespace penstock::replay
