// What the load may become until a replica that is requested now is ready, and how carefully to plan for it.
#pragma once

#include <optional>
#include <vector>

#include "core/state_archive.h"
#include "core/time.h"
#include "planner/penstock/backtest.h"
#include "planner/penstock/burn_rate.h"
#include "planner/penstock/futures.h"
#include "planner/penstock/load_curve.h"
#include "planner/penstock/load_history.h"
#include "planner/penstock/plan_search.h"
#include "planner/penstock/saved_budget.h"
#include "planner/penstock/trials.h"
#include "planner/policy.h"
#include "signals/observation.h"

namespace penstock::planner {

// Times from a request for more replicas until they are ready, the longest of all pools.
struct CapacityLags {
  core::Duration start_up;
  core::Duration soonest;  // The wake time of a fleet with replicas asleep, otherwise its start-up time.
  void archive(core::StateArchive& state) { state.values_of(start_up, soonest); }
};

class LoadOutlook {
 public:
  // `fixed` replaces the controller that the backtest chooses.
  LoadOutlook(double goal, const CapacityLags& lags, const std::optional<Controller>& fixed = std::nullopt)
      : fixed_(fixed),
        goal_(goal),
        futures_(lags.start_up),
        soon_(lags.soonest),
        backtest_({.goal = goal, .lag = lags.start_up}) {}

  // Called every tick. `used` is the length of the traffic that the last plan used, to whose load futures are relative;
  // `uncertainty` is a factor of futures. Before the last phase, or with a fixed controller, another one moves the
  // fleet: what is missed then says nothing of the chosen one.
  void observe(const signals::Observation& observation, core::Duration used, double uncertainty, RolloutPhase phase,
               BurnRate& burn);
  // A trial of a fleet at a multiple of the traffic in (from, to]. `best` is the attainment of a fleet of any size.
  void observe_trial(core::Instant from, core::Instant to, const Fleet& fleet, double load, const TrialOutcome& outcome,
                     double best);

  // Replicas take another time to become ready: futures and controllers begin anew, with the first ones.
  void change_lags(const CapacityLags& lags);
  // The SLO or the engines are others: forgets what trials have shown and what has been missed.
  void forget_misses(const CapacityLags& lags);

  // Multiples of the load, each times `uncertainty`.
  [[nodiscard]] std::vector<double> futures(double uncertainty = 1.0) const;
  [[nodiscard]] double largest_future() const { return futures_.multiples().back(); }
  // More careful than the first choice if the traffic requires it; less careful only in the phase kCost.
  [[nodiscard]] Controller controller(RolloutPhase phase) const;
  // Multiple of the misses that goals allow which the present traffic may have; above 1 only in the phase kCost.
  [[nodiscard]] double misses(RolloutPhase phase) const;
  // Replicas in the phase kCost relative to the earlier phases.
  [[nodiscard]] double savings() const { return fixed_ ? 1.0 : backtest_.replicas_to_first(); }
  [[nodiscard]] double budget_left() const { return backtest_.budget_left(); }
  // Of the controller that the backtest has chosen; null with a fixed one.
  [[nodiscard]] const Backtest* backtest() const { return fixed_ ? nullptr : &backtest_; }
  // Share of a plan that must be awake, because it may be needed before a replica asleep has woken up. 1 before trials
  // have shown what a replica serves.
  [[nodiscard]] double awake_share(RolloutPhase phase) const;

  void archive(core::StateArchive& state) {
    state("load_outlook", history_, futures_, soon_, curve_, backtest_, saved_, base_);
  }

 private:
  std::optional<Controller> fixed_;
  double goal_;
  LoadHistory history_;
  Futures futures_;  // At the time at which a replica that is started now is ready.
  Futures soon_;     // At the time at which one that is woken now is ready.
  LoadCurve curve_;
  Backtest backtest_;
  SavedBudget saved_;
  double base_ = 0.0;  // The load of the last minute to which futures are relative.
};

}  // namespace penstock::planner
