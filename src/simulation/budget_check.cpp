#include "simulation/budget_check.h"

#include <fmt/format.h>

#include <algorithm>

namespace penstock::simulation {

std::string BudgetCheck::violation(const dispatch::Dispatcher& dispatcher, core::Instant now) const {
  const auto& tenants = dispatcher.options().tenants;
  for (std::uint32_t number = 0; number < tenants.size(); ++number) {
    const dispatch::Tenant& tenant = tenants[number];
    if (!tenant.budget.limited() || tenant.reserve == admission::Reserve::kExpected) continue;
    const Past past = number < past_.size() ? past_[number] : Past{};
    const admission::AdmissionController::Tenant figures = dispatcher.tenant(number, now);
    const std::uint64_t used = past.used + figures.used_total + figures.reserved_tokens;
    const std::uint64_t largest = std::max(past.largest_claim, figures.largest_claim);
    const double minutes = core::to_seconds(now - core::kStart) / 60.0;
    const double budget = tenant.budget.capacity() + tenant.budget.tokens_per_minute * minutes;
    // One token is for the rounding of the sums.
    if (static_cast<double>(used) > budget + static_cast<double>(largest) + 1.0)
      return fmt::format("tenant {} used and reserved {} tokens of a budget of {:.0f}, its largest request has {}",
                         tenant.name, used, budget, largest);
  }
  return {};
}

void BudgetCheck::ended(const dispatch::Dispatcher& dispatcher, core::Instant now) {
  past_.resize(dispatcher.options().tenants.size());
  for (std::uint32_t number = 0; number < past_.size(); ++number) {
    const admission::AdmissionController::Tenant figures = dispatcher.tenant(number, now);
    past_[number].used += figures.used_total + figures.reserved_tokens;
    past_[number].largest_claim = std::max(past_[number].largest_claim, figures.largest_claim);
  }
}

}  // namespace penstock::simulation
