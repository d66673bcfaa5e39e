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
  // A plan uses the traffic of this time, and earlier traffic until there are `enough_requests`.
  core::Duration look_back = std::chrono::minutes{5};
  std::size_t enough_requests = MemoryOptions{}.enough_requests;
  // Fewer requests are insufficient for a plan. They only end a plan for more requests, once the memory no longer
  // contains the traffic of that plan.
  std::size_t requests_min = 30;
  core::Duration urgent_memory =
      std::chrono::seconds{60};  // An urgent plan uses only slices that ended within this time.
};

struct LoopPlan : FleetPlan {
  core::Instant made;
  core::Duration used{};  // Length of the traffic of the simulation.
  double rate = 0.0;      // Its requests per second.
  PlanGoal goal;          // The goal of the search.
  void archive(core::StateArchive& state) {
    FleetPlan::archive(state);
    state.values_of(made, used, rate, goal);
  }
};

// A search that does not finish within a tick continues in the next one with the data known by then.
class PlanLoop {
 public:
  // Loops that see the same requests share a memory.
  PlanLoop(std::shared_ptr<TrafficMemory> memory, const PlanLoopOptions& options)
      : options_(options), memory_(std::move(memory)) {}

  // Called after TrafficMemory::begin_tick().
  // A search starts from `current` and prefers it. `goal_at` is called at its start with the rate of the requests in
  // memory. `urgent` starts a search as soon as none is in progress, on the latest traffic only. With `step`, a search
  // starts now, on the traffic since then.
  void tick(const signals::Observation& observation, const Fleet& current,
            const std::function<PlanGoal(double rate)>& goal_at, bool urgent = false,
            std::optional<core::Instant> step = std::nullopt);
  [[nodiscard]] const std::optional<LoopPlan>& plan() const { return plan_; }
  // Time since which traffic has been waiting for a plan; empty while the plan is recent enough.
  [[nodiscard]] std::optional<core::Instant> waiting_since() const;

  void archive(core::StateArchive& state) { state("plan_loop", search_, plan_, next_); }

 private:
  struct Search {
    core::Instant began;
    core::Duration look_back;
    std::size_t enough_requests = 0;
    Fleet from;
    PlanGoal goal;
    void archive(core::StateArchive& state) { state.values_of(began, look_back, enough_requests, from, goal); }
  };
  PlanLoopOptions options_;
  std::shared_ptr<TrafficMemory> memory_;
  std::optional<Search> search_;
  std::optional<LoopPlan> plan_;
  core::Instant next_{};
};

// The latest proposal by pool, with the replicas asleep; at least one replica each.
[[nodiscard]] Fleet targets_of(const signals::Observation& observation);

}  // namespace penstock::planner
