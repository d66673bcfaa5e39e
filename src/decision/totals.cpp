#include "decision/totals.h"

#include <algorithm>

#include "core/result.h"
#include "decision/figures.h"

namespace penstock::decision {

void DecisionTotals::count(const signals::Observation& observation, const Decision& decision) {
  PENSTOCK_ASSERT(decision.pools.size() == observation.pools.size(), "a policy decides on every pool");
  const std::size_t pools = std::max(gpu_time_.size(), observation.pools.size());
  gpu_time_.resize(pools);
  divided_hours_.resize(pools);
  input_hours_.resize(pools);
  const core::Duration passed =
      counted_to_ ? std::max(core::Duration{}, observation.now - *counted_to_) : core::Duration{};
  counted_to_ = std::max(observation.now, counted_to_.value_or(observation.now));
  names_.clear();
  for (std::size_t i = 0; i < observation.pools.size(); ++i) {
    const signals::PoolObservation& pool = observation.pools[i];
    names_.push_back(pool.name);
    const core::Duration used =
        core::from_seconds(core::to_seconds(passed) * pool.gpus_per_replica * paid_replicas(pool));
    gpu_time_[i] += used;
    if (const auto share = input_time_share(pool.role, decision.pools[i])) {
      divided_hours_[i] += core::to_hours(used);
      input_hours_[i] += core::to_hours(used) * *share;
    }
    ++decisions_[{i, decision.pools[i].reason, decision.pools[i].limited_by}];
  }
}

core::Duration DecisionTotals::gpu_time(std::size_t pool) const {
  return pool < gpu_time_.size() ? gpu_time_[pool] : core::Duration{};
}

std::optional<double> DecisionTotals::cost(std::size_t pool) const {
  if (pool >= prices_.size()) return std::nullopt;
  return core::to_hours(gpu_time(pool)) * prices_[pool];
}

std::optional<TokenCost> DecisionTotals::token_cost() const {
  TokenCost sum;
  for (std::size_t i = 0; i < gpu_time_.size(); ++i) {
    const auto usd = cost(i);
    if (!usd) return std::nullopt;
    if (gpu_time_[i] == core::Duration{}) continue;
    if (divided_hours_[i] <= 0.0) return std::nullopt;
    const double input = *usd * input_hours_[i] / divided_hours_[i];
    sum.input += input;
    sum.output += *usd - input;
  }
  return sum;
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
