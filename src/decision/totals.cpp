#include "decision/totals.h"

#include <algorithm>

#include "core/result.h"

namespace penstock::decision {

void DecisionTotals::count(const signals::Observation& observation, const Decision& decision) {
  PENSTOCK_ASSERT(decision.pools.size() == observation.pools.size(), "a policy decides on every pool");
  gpu_time_.resize(std::max(gpu_time_.size(), observation.pools.size()));
  const core::Duration passed =
      counted_to_ ? std::max(core::Duration{}, observation.now - *counted_to_) : core::Duration{};
  counted_to_ = std::max(observation.now, counted_to_.value_or(observation.now));
  names_.clear();
  for (std::size_t i = 0; i < observation.pools.size(); ++i) {
    const signals::PoolObservation& pool = observation.pools[i];
    names_.push_back(pool.name);
    gpu_time_[i] += passed * pool.gpus_per_replica * (pool.starting + pool.ready + pool.draining);
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

std::vector<DecisionCount> DecisionTotals::decisions() const {
  std::vector<DecisionCount> counts;
  for (const auto& [key, decisions] : decisions_) {
    const auto& [pool, reason, limit] = key;
    if (pool < names_.size()) counts.push_back({names_[pool], reason, limit, decisions});
  }
  return counts;
}

}  // namespace penstock::decision
