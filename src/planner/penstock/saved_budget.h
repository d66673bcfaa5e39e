// What the last half day has left of the error budget.
#pragma once

#include <span>
#include <vector>

#include "core/state_archive.h"
#include "planner/penstock/burn_rate.h"

namespace penstock::planner {

// What a minute leaves of the sums of earlier minutes: 1/e in twelve hours.
inline constexpr double kKeptOfDay = 0.99861;
// Minutes of usual traffic that stand for the time before any observation.
inline constexpr double kFirstMinutes = 120.0;

// A fleet of whole replicas that reaches the goal at the worst time of its traffic exceeds it at all others. Recent
// traffic may therefore miss more than the goal allows, until the misses of half a day use up the budget.
class SavedBudget {
 public:
  // A minute has ended, with its requests by objective.
  void observe(std::span<const BudgetUse> minute);
  // Multiple of the misses which the goals allow, 1 to 4: above 1 while each objective has missed less than allowed.
  // Two hours of an evenly used budget stand for the time before.
  [[nodiscard]] double misses() const;

  void archive(core::StateArchive& state) { state("saved_budget", uses_, minutes_, first_minutes_); }

 private:
  struct Objective : BudgetUse {
    double idle = 0.0;  // Minutes since its last request.
    void archive(core::StateArchive& state) {
      BudgetUse::archive(state);
      state.values_of(idle);
    }
  };
  std::vector<Objective> uses_;  // By objective; earlier minutes count less.
  double minutes_ = 0.0;         // In these sums.
  double first_minutes_ = kFirstMinutes;
};

}  // namespace penstock::planner
