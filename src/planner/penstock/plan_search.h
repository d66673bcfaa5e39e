// The cheapest fleet that keeps a goal, found by trying few of them.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/state_archive.h"
#include "planner/penstock/trials.h"
#include "planner/policy.h"
#include "signals/observation.h"

namespace penstock::planner {

using Fleet = std::vector<std::uint32_t>;  // replicas by pool

// How fleets would have served some traffic. The larger a fleet, the more it keeps, as far as trials can tell.
class FleetOutcomes {
 public:
  virtual ~FleetOutcomes() = default;
  // None while the answer would cost more work than this tick has left: ask again in the next.
  [[nodiscard]] virtual std::optional<TrialOutcome> outcome(const Fleet& fleet) = 0;
  // The same of the traffic at `load` (> 0) times its rate, to a twentieth.
  [[nodiscard]] virtual std::optional<TrialOutcome> outcome_at(const Fleet& fleet, double load) = 0;
};

struct PlanGoal {
  std::vector<double> goals = {0.99};  // by target: of what a fleet of any size would keep
  double growth = 1.0;                 // the traffic comes at so many times its rate
  double headroom = 1.0;               // at so many times that rate the fleet must not collapse …
  double headroom_goal = 0.9;          // … but keep this share of the best, or what the pools' bounds let it keep
  void archive(core::StateArchive& state) { state.values_of(goals, growth, headroom, headroom_goal); }
};

// What a search came to, and the numbers behind it.
struct FleetPlan {
  Fleet fleet;
  double attainment = 1.0;  // of that fleet in its trial
  double one_less = 1.0;    // of the fleet with one replica less in its last pool
  double best = 1.0;        // of a fleet so large that more changes nothing
  double stressed = 1.0;    // of the fleet at the rate that it has headroom for
  double requests = 0.0;    // that it was tried on
  std::vector<Candidate> tried;
  void archive(core::StateArchive& state) {
    state.values_of(fleet, attainment, one_less, best, stressed, requests, tried);
  }
};

// What a pool of so many replicas must be able to carry: the smaller it is, the further its load strays from the mean.
[[nodiscard]] double headroom_of(double headroom, std::uint32_t replicas);

// Tries fleets around `from`, within the pools' bounds, in steps that double away from it and halve back. Each pool in
// turn gets as small as it can while those after it are still large, and what may be missed is shared out between them.
// Between the fleet there is and another, half a standard deviation of the misses decides for the fleet there is.
// None: the tick's work is done; the same search, asked again, goes on where it stopped.
[[nodiscard]] std::optional<FleetPlan> search_plan(FleetOutcomes& outcomes,
                                                   const std::vector<signals::PoolObservation>& pools,
                                                   const Fleet& from, const PlanGoal& goal);

}  // namespace penstock::planner
