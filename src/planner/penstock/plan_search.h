// Search of the cheapest fleet that meets a goal with few trials.
#pragma once

#include <cstdint>
#include <numeric>
#include <optional>
#include <vector>

#include "core/state_archive.h"
#include "planner/penstock/trials.h"
#include "planner/policy.h"
#include "signals/observation.h"

namespace penstock::planner {

using Fleet = std::vector<std::uint32_t>;  // Replicas by pool.

[[nodiscard]] inline std::uint64_t replicas_of(const Fleet& fleet) {
  return std::accumulate(fleet.begin(), fleet.end(), std::uint64_t{0});
}

// Simulated attainment of fleets on some traffic. Attainment increases with the fleet within the resolution of trials.
class FleetOutcomes {
 public:
  virtual ~FleetOutcomes() = default;
  // Empty if the result needs more work than the tick has left; the caller repeats the call in the next tick.
  [[nodiscard]] virtual std::optional<TrialOutcome> outcome(const Fleet& fleet) = 0;
  // The same for the traffic at `load` (> 0) times its rate, in steps of 1/20.
  [[nodiscard]] virtual std::optional<TrialOutcome> outcome_at(const Fleet& fleet, double load) = 0;
};

struct PlanGoal {
  std::vector<double> goals = {0.99};  // By objective: required attainment, as far as a fleet of any size reaches it.
  double growth = 1.0;                 // Multiple of the rate at which the traffic is expected.
  // Equally likely multiples of that rate, ascending; empty if only the expected traffic counts.
  std::vector<double> futures{};
  // Share of requests that may miss on average over the futures, relative to a fleet of any size. Objectives with
  // another goal have as many times this share as their goal allows misses.
  double allowance = 0.1;
  double misses = 1.0;  // Multiple of the misses that goals allow which the expected traffic may have.
  void archive(core::StateArchive& state) { state.values_of(goals, growth, futures, allowance, misses); }
};

// A fleet smaller than the current one may miss this part of the allowance: near the limit, the next change of the
// traffic would take the smaller fleet back.
inline constexpr double kShrinkAllowance = 0.5;

// Why a pool of a plan is not one replica smaller: its attainment would be below the needed one, or else the attainment
// over the futures. While a pool is minimised, the following ones are still large.
struct PlanBound {
  bool at_minimum = true;  // The pool may not be smaller, and the rest is unknown.
  double attainment = 1.0, needed = 1.0;
  double over_futures = 1.0, needed_over_futures = 1.0;

  [[nodiscard]] bool is_future() const { return !at_minimum && attainment >= needed; }
  void archive(core::StateArchive& state) {
    state.values_of(at_minimum, attainment, needed, over_futures, needed_over_futures);
  }
};

// Result of a search with its evidence.
struct FleetPlan {
  Fleet fleet;
  std::vector<PlanBound> bounds;  // By pool.
  double attainment = 1.0;        // Attainment of the fleet in its trial.
  double best = 1.0;              // Attainment of a fleet so large that further replicas change nothing.
  double over_futures = 1.0;      // Mean attainment of the fleet over the futures.
  double requests = 0.0;          // Number of requests in the trial.
  std::vector<Candidate> tried;
  void archive(core::StateArchive& state) {
    state.values_of(fleet, bounds, attainment, best, over_futures, requests, tried);
  }
};

// Whether a future is more than the expected traffic; a smaller multiple is taken to be like it.
[[nodiscard]] bool is_growth(double multiple);
// The load multiple that a pool of this size must be able to serve in a future: a burst that one of many replicas takes
// is most of the load of a single one.
[[nodiscard]] double load_of_future(double multiple, std::uint32_t replicas);

// Tries fleets around `from` within the pools' bounds, in steps that double away from it and halve back. Each pool in
// turn is minimised while the following ones are still large, and the error budget is divided between them. Between the
// current fleet and another one, half a standard deviation of the misses favours the current one. Over the futures, a
// fleet that is not smaller than the current one may miss that much more, and a smaller one has only kShrinkAllowance
// of the allowance. Empty if the tick's work is used up; the same search continues when it is called again.
[[nodiscard]] std::optional<FleetPlan> search_plan(FleetOutcomes& outcomes,
                                                   const std::vector<signals::PoolObservation>& pools,
                                                   const Fleet& from, const PlanGoal& goal);

}  // namespace penstock::planner
