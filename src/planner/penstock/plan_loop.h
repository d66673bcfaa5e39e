// A loop that plans: remembers the traffic of a while, and finds the cheapest fleet for it again and again.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>

#include "core/state_archive.h"
#include "core/time.h"
#include "planner/penstock/plan_search.h"
#include "planner/penstock/traffic_memory.h"
#include "planner/penstock/trials.h"
#include "signals/observation.h"

namespace penstock::planner {

struct PlanLoopOptions {
  core::Duration interval = std::chrono::seconds{180};  // from the beginning of one search to that of the next
  MemoryOptions memory;                                 // the traffic that fleets are tried on
  std::size_t requests_min = 30;                        // fewer say nothing, but that a plan for more is over: once the
                                                        // memory has forgotten all that it was made for
  core::Duration urgent_memory =
      std::chrono::seconds{60};  // slices that ended within it are all that an urgent plan knows
};

struct LoopPlan : FleetPlan {
  core::Instant made;
  double rate = 0.0;  // requests a second that it was tried on …
  PlanGoal goal;      // … and what it had to keep
  void archive(core::StateArchive& state) {
    FleetPlan::archive(state);
    state.values_of(made, rate, goal);
  }
};

// A search that a tick has no time to finish goes on in the next, with what is known by then.
class PlanLoop {
 public:
  PlanLoop(std::shared_ptr<FleetTrials> trials, const PlanLoopOptions& options)
      : options_(options), memory_(std::move(trials), options.memory) {}

  // `goal_at` is asked when a search begins, with the rate of the requests in memory. `urgent`: a search begins as soon as
  // none is under way, on the latest traffic alone.
  void tick(const signals::Observation& observation, const std::function<PlanGoal(double rate)>& goal_at,
            bool urgent = false);
  // Trials are not what they were.
  void forget_outcomes() { memory_.forget_outcomes(); }

  [[nodiscard]] const std::optional<LoopPlan>& plan() const { return plan_; }
  // Since when traffic has been waiting for a plan; none while there is a plan that is as new as it should be.
  [[nodiscard]] std::optional<core::Instant> waiting_since() const;

  void archive(core::StateArchive& state) { state("plan_loop", memory_, search_, plan_, next_); }

 private:
  struct Search {
    core::Instant began;
    Fleet from;
    PlanGoal goal;
    void archive(core::StateArchive& state) { state.values_of(began, from, goal); }
  };
  PlanLoopOptions options_;
  TrafficMemory memory_;
  std::optional<Search> search_;
  std::optional<LoopPlan> plan_;
  core::Instant next_{};
};

// What was last asked for, by pool; at least one replica each.
[[nodiscard]] Fleet targets_of(const signals::Observation& observation);

}  // namespace penstock::planner
