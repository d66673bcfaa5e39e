// A loop that remembers recent traffic and repeatedly searches the cheapest fleet for it.
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
  core::Duration interval = std::chrono::seconds{180};  // Time between the starts of two searches.
  MemoryOptions memory;                                 // The traffic on which fleets are simulated.
  // Fewer requests are insufficient for a plan. They only end a plan for more requests, once the memory no longer
  // contains the traffic of that plan.
  std::size_t requests_min = 30;
  core::Duration urgent_memory =
      std::chrono::seconds{60};  // An urgent plan uses only slices that ended within this time.
};

struct LoopPlan : FleetPlan {
  core::Instant made;
  double rate = 0.0;  // Requests per second of the simulation.
  PlanGoal goal;      // The goal of the search.
  void archive(core::StateArchive& state) {
    FleetPlan::archive(state);
    state.values_of(made, rate, goal);
  }
};

// A search that does not finish within a tick continues in the next one with the data known by then.
class PlanLoop {
 public:
  // Loops that see the same requests may share the estimate of their lengths.
  PlanLoop(std::shared_ptr<FleetTrials> trials, const PlanLoopOptions& options,
           std::shared_ptr<OutputLengths> lengths = std::make_shared<OutputLengths>())
      : options_(options), memory_(std::move(trials), options.memory, std::move(lengths)) {}

  // `goal_at` is called at the start of a search with the rate of the requests in memory. `urgent` starts a search as
  // soon as none is in progress, on the latest traffic only. With `step`, a search starts now, on the traffic since
  // then.
  void tick(const signals::Observation& observation, const std::function<PlanGoal(double rate)>& goal_at,
            bool urgent = false, std::optional<core::Instant> step = std::nullopt);
  // Compares trials with what was observed; see TrafficMemory. Called after tick().
  [[nodiscard]] std::optional<TrialCheck> check(const signals::SloPolicy& slo, double factor) {
    return memory_.check(slo, factor);
  }
  // Discards all results because the trials have changed.
  void forget_outcomes() { memory_.forget_outcomes(); }

  [[nodiscard]] const std::optional<LoopPlan>& plan() const { return plan_; }
  // Time since which traffic has been waiting for a plan; empty while the plan is recent enough.
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

// The latest proposal by pool; at least one replica each.
[[nodiscard]] Fleet targets_of(const signals::Observation& observation);

}  // namespace penstock::planner
