// The GPU cost of the tokens that a planner counts, from the time on at which it counts them.
#pragma once

#include <optional>

#include "core/time.h"
#include "decision/token_count.h"
#include "decision/totals.h"

namespace penstock::controller {

class TokenCostMeter {
 public:
  explicit TokenCostMeter(core::Instant since) : since_(since) {}

  // Counts from `now` on only.
  void restart(core::Instant now, const decision::DecisionTotals& totals);
  [[nodiscard]] core::Instant since() const { return since_; }
  // Empty while DecisionTotals::token_cost() is.
  [[nodiscard]] std::optional<decision::TokenCost> cost(const decision::DecisionTotals& totals) const;

 private:
  core::Instant since_;
  decision::TokenCost before_;
};

}  // namespace penstock::controller
