#include "planner/penstock/saved_budget.h"

#include <algorithm>

namespace penstock::planner {
namespace {

constexpr double kSpent = 3.0;  // Multiple by which a budget that is not used at all raises the misses.

}  // namespace

void SavedBudget::observe(std::span<const BudgetUse> minute) {
  if (uses_.size() < minute.size()) uses_.resize(minute.size());
  minutes_ = kKeptOfDay * minutes_ + 1.0;
  first_minutes_ *= kKeptOfDay;
  for (std::size_t i = 0; i < uses_.size(); ++i) {
    uses_[i] = uses_[i].times(kKeptOfDay);
    if (i < minute.size()) uses_[i] += minute[i];
  }
}

double SavedBudget::misses() const {
  double saved = 1.0;
  bool used = false;
  for (const BudgetUse& use : uses_) {
    if (!(use.allowed > 0.0)) continue;
    saved = std::min(saved, (1.0 - use.missed / use.allowed) * minutes_ / (minutes_ + first_minutes_));
    used = true;
  }
  return used ? 1.0 + kSpent * std::max(0.0, saved) : 1.0;
}

}  // namespace penstock::planner
