#include "decision/totals.h"

#include <algorithm>

#include "core/result.h"
#include "decision/figures.h"

namespace penstock::decision {

void DecisionTotals::count(const signals::Observation& observation, const Decision& decision) {
  PENSTOCK_ASSERT(decision.pools.size() == observation.pools.size(), "a policy decides on every pool");
  pools_.resize(std::max(pools_.size(), observation.pools.size()));
  const core::Duration passed =
      counted_to_ ? std::max(core::Duration{}, observation.now - *counted_to_) : core::Duration{};
  counted_to_ = std::max(observation.now, counted_to_.value_or(observation.now));
  names_.clear();
  for (std::size_t i = 0; i < observation.pools.size(); ++i) {
    const signals::PoolObservation& pool = observation.pools[i];
    names_.push_back(pool.name);
    const core::Duration used =
        core::from_seconds(core::to_seconds(passed) * pool.gpus_per_replica * paid_replicas(pool));
    PoolTotals& totals = pools_[i];
    totals.gpu_time += used;
    const double usd = i < prices_.size() ? core::to_hours(used) * prices_[i] : 0.0;
    totals.cost += usd;
    totals.undivided_cost += usd;
    if (const auto share = input_time_share(pool.role, decision.pools[i])) totals.input_share = share;
    if (totals.input_share) {
      token_cost_ += {totals.undivided_cost * *totals.input_share, totals.undivided_cost * (1.0 - *totals.input_share)};
      totals.undivided_cost = 0.0;
    }
    ++decisions_[{i, decision.pools[i].reason, decision.pools[i].limited_by}];
  }
}

core::Duration DecisionTotals::gpu_time(std::size_t pool) const {
  return pool < pools_.size() ? pools_[pool].gpu_time : core::Duration{};
}

std::optional<double> DecisionTotals::cost(std::size_t pool) const {
  if (pool >= prices_.size()) return std::nullopt;
  return pool < pools_.size() ? pools_[pool].cost : 0.0;
}

std::optional<TokenCost> DecisionTotals::token_cost() const {
  for (std::size_t i = 0; i < pools_.size(); ++i)
    if (i >= prices_.size() || (pools_[i].gpu_time > core::Duration{} && !pools_[i].input_share)) return std::nullopt;
  return token_cost_;
}

std::vector<DecisionCount> DecisionTotals::decisions() const {
  std::vector<DecisionCount> counts;
  for (const auto& [key, decisions] : decisions_) {
    const auto& [pool, reason, limit] = key;
    if (pool < names_.size()) counts.push_back({names_[pool], reason, limit, decisions});
  }
  return counts;
}

}  // namespace penstock::decision
