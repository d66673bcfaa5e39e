#include "controller/token_cost_meter.h"

#include <algorithm>

namespace penstock::controller {

void TokenCostMeter::restart(core::Instant now, const decision::DecisionTotals& totals) {
  since_ = now;
  before_ = totals.token_cost().value_or(decision::TokenCost{});
}

std::optional<decision::TokenCost> TokenCostMeter::cost(const decision::DecisionTotals& totals) const {
  auto cost = totals.token_cost();
  if (!cost) return std::nullopt;
  // The cost of earlier time is divided by what is known now, too, so that a difference may be below zero.
  cost->input = std::max(0.0, cost->input - before_.input);
  cost->output = std::max(0.0, cost->output - before_.output);
  return cost;
}

}  // namespace penstock::controller
