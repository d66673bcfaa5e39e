// A policy that knows the future: what a fleet could have cost at best, as a mark to measure the others against.
#pragma once

#include <memory>

#include "core/result.h"
#include "decision/policy.h"
#include "simulation/run.h"

namespace penstock::simulation {

struct ClairvoyantOptions {
  double goal = 0.99;  // of the attainment that a fleet of max_replicas would keep
  core::Duration narrowest_window = std::chrono::seconds{30};  // the fleet may change between two windows
  std::uint32_t windows_max = 1440;
  std::uint32_t refinements = 14;  // simulations of whole schedules after those of the fleet sizes …
  std::uint32_t trims = 20;        // … and of the best of them with a replica less for a while
};

// Finds, before the run, a schedule of replicas that keeps the goal at the least GPU-hours it can find:
//  1. For each fleet size, two runs tell how many requests of each window would miss the SLO if the window before had
//     left no backlog.
//  2. Dynamic programming over the windows picks the fleet sizes with the least
//         replica-seconds + start-up time · replicas added + price · misses
//     where the price of a miss is found by bisection, so that the goal is just kept. Replicas are asked for a start-up
//     time before they are needed.
//  3. The schedule is simulated. Where more or fewer miss than the table said, because of what the windows before left
//     behind, the table is corrected and step 2 repeated; the cheapest schedule that kept the goal goes on, or the
//     cheapest fixed fleet that kept it if that costs less.
//  4. Replicas are taken out of stretches of it, one trial at a time, for as long as the goal is kept.
// In a disaggregated deployment both pools are planned so, each beside a full fleet of the other.
//
// It is near the optimum, not at it: docs/policies.md states the gap to exhaustive search. The workload and the options
// must be those of the run; `options.progress` hears of the search. Takes as long as about 60 runs.
[[nodiscard]] core::Result<std::unique_ptr<decision::Policy>> make_clairvoyant(
    const workload::Workload& workload, const RunOptions& options, const ClairvoyantOptions& clairvoyant = {});

}  // namespace penstock::simulation
