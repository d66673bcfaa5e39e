// What the planner learns of the traffic, and the fleets that its loops plan for it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "core/state_archive.h"
#include "core/time.h"
#include "planner/penstock/burn_rate.h"
#include "planner/penstock/load_correction.h"
#include "planner/penstock/load_outlook.h"
#include "planner/penstock/plan_loop.h"
#include "planner/penstock/planner_options.h"
#include "planner/penstock/replica_speed.h"
#include "planner/penstock/traffic_memory.h"
#include "planner/penstock/traffic_outlook.h"
#include "planner/penstock/trial_error.h"
#include "planner/penstock/trials.h"
#include "planner/windows.h"
#include "signals/observation.h"
#include "signals/slo.h"

namespace penstock::planner {

// Both loops, and what they need: the speed of replicas, forecast, likely loads, burn rate, and the correction of
// plans. A plan is for the fleet as a whole, before the correction, schedules and guardrails.
class FleetPlans {
 public:
  FleetPlans(std::shared_ptr<FleetTrials> trials, const signals::SloPolicy& slo, const PlannerOptions& options);
  FleetPlans(const FleetPlans&) = delete;
  FleetPlans& operator=(const FleetPlans&) = delete;

  // Without trials, or with another target than an SLO, there are no plans.
  [[nodiscard]] bool enabled() const { return trials_ && options_.target == OptimizationTarget::kSla; }

  // Called at every tick. `spread`: the same with the arrivals of deferred requests spread over their windows.
  void learn(const signals::Observation& observation, const signals::Observation& spread);
  // Continues or starts the searches of both loops, compares one slice with its trial, and corrects plans.
  void make(const signals::Observation& spread);

  // ---- of the time since learn() was first called -------------------------------------------------------------------
  [[nodiscard]] const TrafficOutlook& outlook() const { return *outlook_; }
  [[nodiscard]] const LoadOutlook& load_outlook() const { return *load_outlook_; }
  [[nodiscard]] const CapacityLags& lags() const { return lags_; }
  [[nodiscard]] bool is_idle(core::Instant now) const;
  [[nodiscard]] bool in_trouble(const signals::Observation& observation) const;
  [[nodiscard]] const std::vector<ReplicaSpeed>& speeds() const { return speeds_; }  // Indexed by pool.
  [[nodiscard]] const TrialError& trial_error() const { return trial_error_; }
  [[nodiscard]] const LoadCorrection& correction() const { return correction_; }
  [[nodiscard]] bool burning() const { return burn_.burning(misses()); }
  [[nodiscard]] double burn_rate() const { return burn_.over_short_window(); }

  // The plan of the load loop; null before the first one.
  [[nodiscard]] const LoopPlan* load_plan() const { return load_.plan() ? &*load_.plan() : nullptr; }
  // The plan of the throughput loop; null if it is not used or from an earlier use.
  [[nodiscard]] const LoopPlan* floor_plan(core::Instant now, RolloutPhase phase) const;
  // The larger of both; null if there is none.
  [[nodiscard]] const LoopPlan* leading_plan(core::Instant now) const;
  // If no fleet meets the SLO in the model, the model or the SLO is wrong; neither is a reason to shrink.
  [[nodiscard]] static bool is_usable(const LoopPlan* plan);
  // A search takes longer than its loop's interval, and the last plan is not recent either.
  [[nodiscard]] bool are_late(core::Instant now) const;

  // ---- hold ---------------------------------------------------------------------------------------------------------
  [[nodiscard]] core::Duration hold(RolloutPhase phase) const;
  // The largest plan of the load loop for the pool within the hold; 0 if guardrails hold replicas for long enough.
  // They do not hold those asleep. `for_switches`: within the last minute only.
  [[nodiscard]] std::uint32_t held_plan(core::Instant now, std::size_t pool, RolloutPhase phase, bool sleeps = false,
                                        bool for_switches = false) const;
  // The same for the sum of all pools.
  [[nodiscard]] std::uint32_t held_sum(core::Instant now, RolloutPhase phase) const;
  // The pool has given replicas to another one, so that it does not hold earlier plans any more.
  void forget_held(core::Instant now, std::size_t pool, std::uint32_t target);

  void archive(core::StateArchive& state);

 private:
  [[nodiscard]] bool has_load() const { return options_.load_loop.interval > core::Duration{}; }
  [[nodiscard]] bool has_floor() const { return options_.throughput_loop.interval > core::Duration{}; }
  [[nodiscard]] bool uses_floor(RolloutPhase phase) const;
  // Starts a forecast over these times.
  void expect_within(const CapacityLags& lags);
  void begin(const CapacityLags& lags);
  void follow(const CapacityLags& lags);
  // What decides whether a request has missed: figures of the SLO, and of the engines.
  [[nodiscard]] std::vector<double> slo_figures() const;
  [[nodiscard]] std::vector<double> engine_figures() const;
  void forget_misses();
  [[nodiscard]] double best() const;
  [[nodiscard]] double misses() const { return load_outlook_->misses(options_.phase); }
  [[nodiscard]] double uncertainty() const;  // Factor of futures.
  void correct_trials();
  void note_plan(const signals::Observation& observation);
  void check_trials(const signals::Observation& observation);
  void raise_plans(const signals::Observation& observation);
  void wait_for_start(const signals::Observation& observation);

  std::shared_ptr<FleetTrials> trials_;
  signals::SloPolicy slo_;
  PlannerOptions options_;
  std::vector<double> goals_;  // Indexed by objective.
  BurnRate burn_;
  std::shared_ptr<TrafficMemory> memory_;
  PlanLoop floor_, load_;
  TrialError trial_error_;
  LoadCorrection correction_;
  std::vector<ReplicaSpeed> speeds_;
  std::vector<TimedValues> recent_plans_;  // Of the load loop, indexed by pool; the last entry is their sum.
  std::optional<TrafficOutlook> outlook_;  // Created at the first observation, with the start-up time.
  std::optional<LoadOutlook> load_outlook_;
  CapacityLags lags_{};        // The times for which they were created.
  std::uint64_t waiting_ = 0;  // Queued requests at the last check.
  bool expects_more_ = false;  // A trusted forecast expects more than the futures contain; of the last planning tick.
  core::Instant raised_at_{}, raise_from_{}, busy_at_{};
};

}  // namespace penstock::planner
