// A policy that knows the future: an estimate of the minimum cost, as a reference for other policies.
#pragma once

#include <cstdint>
#include <memory>

#include "core/result.h"
#include "decision/policy.h"
#include "simulation/run.h"

namespace penstock::simulation {

struct ClairvoyantOptions {
  core::Duration narrowest_window = std::chrono::seconds{30};  // The fleet may change between two windows.
  std::uint32_t windows_max = 1440;
  // Simulations of the whole workload: so many that they simulate this number of requests, within the bounds.
  std::uint64_t requests_simulated = 32'000'000;
  std::uint32_t runs_min = 8, runs_max = 60;
};

struct Clairvoyant {
  std::unique_ptr<decision::Policy> policy;
  double goal = 0.99;
  double attainment = 0.0;  // Of its schedule, in simulation.

  [[nodiscard]] bool reaches_goal() const { return attainment >= goal; }
};

// Searches, before the run, a schedule of replicas that meets `options.slo_goal`, as a share of all requests, at the
// least cost:
//  1. Fixed fleets are simulated up to the first that meets the goal. If none does, the goal is half a point below what
// the largest attains. The windows of the schedule are at least as long as 95 % of the requests last.
//  2. A fluid model is fitted to these runs (load_curve.h): token load of a window per replica → share of misses.
//  3. Dynamic programming over the windows selects the fleet sizes that minimise
//         replica-seconds + start-up time · replicas added + price · misses
//     with a price of a miss, found by bisection, that just meets the goal. Replicas are requested one start-up time
// before they are needed.
//  4. The schedule is simulated. The model is fitted to the run, and step 3 repeated.
//  5. Small changes of the best schedule are simulated, many in one run and far from each other, and those are adopted
// that save most for what they miss (schedule_moves.h).
//  6. If a fixed fleet that costs less was not simulated yet, it is. What meets the goal at the least cost is used.
// In a disaggregated deployment each pool is modelled beside a full fleet of the other.
//
// It is near the optimum, not at it: docs/policies.md states the gap to exhaustive search. The workload and the options
// must be those of the run; `options.progress` hears of the search. Takes 8 to 60 runs; the longer the workload, the
// fewer.
[[nodiscard]] core::Result<Clairvoyant> make_clairvoyant(const workload::Workload& workload, const RunOptions& options,
                                                         const ClairvoyantOptions& clairvoyant = {});

}  // namespace penstock::simulation
