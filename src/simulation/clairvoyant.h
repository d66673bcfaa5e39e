// A policy that knows the future: an estimate of the minimum cost, as a reference for other policies.
#pragma once

#include <memory>

#include "core/result.h"
#include "decision/policy.h"
#include "simulation/run.h"

namespace penstock::simulation {

struct ClairvoyantOptions {
  double goal = 0.99;                                          // Share of the attainment of a fleet of max_replicas.
  core::Duration narrowest_window = std::chrono::seconds{30};  // The fleet may change between two windows.
  std::uint32_t windows_max = 1440;
  std::uint32_t refinements = 14;  // Simulations of complete schedules after those of the fleet sizes …
  std::uint32_t trims = 20;        // … and of the best schedule with a replica removed for a while.
};

// Searches, before the run, a schedule of replicas that meets the goal at minimum GPU-hours:
//  1. For each fleet size, two runs count the requests of each window that would miss the SLO without a backlog from
// the window before.
//  2. Dynamic programming over the windows selects the fleet sizes that minimise
//         replica-seconds + start-up time · replicas added + price · misses
//     with a price of a miss, found by bisection, that just meets the goal. Replicas are requested one start-up time
// before they are needed.
//  3. The schedule is simulated. Where the misses differ from the table, because of backlog from earlier windows, the
// table is corrected and step 2 repeated. The cheapest schedule that met the goal is used, or the cheapest fixed fleet
// that met it if that costs less.
//  4. Replicas are removed for parts of the schedule, one simulation each, while the goal is met.
// In a disaggregated deployment each pool is planned this way beside a full fleet of the other.
//
// It is near the optimum, not at it: docs/policies.md states the gap to exhaustive search. The workload and the options
// must be those of the run; `options.progress` hears of the search. Takes as long as about 60 runs.
[[nodiscard]] core::Result<std::unique_ptr<decision::Policy>> make_clairvoyant(
    const workload::Workload& workload, const RunOptions& options, const ClairvoyantOptions& clairvoyant = {});

}  // namespace penstock::simulation
