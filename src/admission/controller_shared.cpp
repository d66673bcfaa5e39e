// The part of AdmissionController that shares budgets and concurrency limits with other gateways.
#include "admission/controller_state.h"

namespace penstock::admission {
namespace {

// Gateways exchange what they took at least once a minute, in which each admits at most this.
double debt_most(const TokenBudget& budget, std::uint32_t gateways) {
  return gateways * (budget.limits().capacity() + budget.limits().tokens_per_minute);
}

void apply(TokenBudget& budget, const SharedChange& change, std::uint32_t gateways, core::Instant now) {
  const double debt = debt_most(budget, gateways);
  budget.charge_elsewhere(change.charged, debt, now);
  if (change.missing > 0.0) budget.require_missing(change.missing, debt, now);
}

}  // namespace

std::optional<std::uint32_t> AdmissionController::tenant_named(const std::string& name) const {
  const auto known = state_->tenant_numbers.find(name);
  return known == state_->tenant_numbers.end() ? std::nullopt : std::optional{known->second};
}

SharedUse AdmissionController::shared_use(std::uint32_t tenant, core::Instant now) const {
  const TenantState& state = state_->tenants[tenant];
  return {state.reserved_total - state.settled_total + state.used_total, state.budget.missing(now), state.running};
}

SharedUse AdmissionController::shared_use(Class traffic_class, core::Instant now) const {
  const std::size_t index = index_of(traffic_class);
  return {state_->class_taken[index], state_->class_budgets[index].missing(now), 0};
}

void AdmissionController::change_shared(std::uint32_t tenant, const SharedChange& change, std::uint32_t gateways,
                                        core::Instant now) {
  TenantState& state = state_->tenants[tenant];
  apply(state.budget, change, gateways, now);
  state.running_elsewhere = change.running_elsewhere;
}

void AdmissionController::change_shared(Class traffic_class, const SharedChange& change, std::uint32_t gateways,
                                        core::Instant now) {
  apply(state_->class_budgets[index_of(traffic_class)], change, gateways, now);
}

}  // namespace penstock::admission
