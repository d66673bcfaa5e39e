#include "planner/penstock/saved_budget.h"

#include <algorithm>

namespace penstock::planner {
namespace {

constexpr double kSpent = 3.0;       // Multiple by which a budget that is not used at all raises the misses.
constexpr double kIdleMost = 720.0;  // Minutes without a request after which an objective decides no more.

}  // namespace

void SavedBudget::observe(std::span<const BudgetUse> minute) {
  if (uses_.empty() && minute.empty()) return;  // No traffic has come yet.
  if (uses_.size() < minute.size()) uses_.resize(minute.size());
  minutes_ = kKeptOfDay * minutes_ + 1.0;
  first_minutes_ *= kKeptOfDay;
  for (std::size_t i = 0; i < uses_.size(); ++i) {
    Objective& objective = uses_[i];
    static_cast<BudgetUse&>(objective) = objective.times(kKeptOfDay);
    objective.idle += 1.0;
    if (i >= minute.size()) continue;
    objective += minute[i];
    if (minute[i].requests > 0.0) objective.idle = 0.0;
  }
}

double SavedBudget::misses() const {
  double saved = 1.0;
  bool used = false;
  for (const Objective& use : uses_) {
    if (!(use.allowed > 0.0) || use.idle > kIdleMost) continue;
    saved = std::min(saved, (1.0 - use.missed / use.allowed) * minutes_ / (minutes_ + first_minutes_));
    used = true;
  }
  return used ? 1.0 + kSpent * std::max(0.0, saved) : 1.0;
}

}  // namespace penstock::planner
