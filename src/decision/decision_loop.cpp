#include "decision/decision_loop.h"

#include <algorithm>
#include <utility>

#include "core/result.h"

namespace penstock::decision {
namespace {

// The decision on one pool as it came to be, which the pool's bounds or a refusal may have changed.
DecisionRecord record_of(const Decision& decision, const PoolDecision& pool, const signals::Observation& observation,
                         std::size_t index, std::string_view policy) {
  DecisionRecord record{pool, decision, observation.now, std::string{policy}, observation.pools[index].name, {}};
  if (!record.candidates.empty())
    for (const signals::PoolObservation& each : observation.pools) record.pools.push_back(each.name);
  return record;
}

}  // namespace

Tick DecisionLoop::tick(const signals::Observation& observation, const SetTarget& set_target) {
  Tick tick{policy_.decide(observation), {}};
  const Decision& decision = tick.decision;
  PENSTOCK_ASSERT(decision.pools.size() == observation.pools.size(), "a policy decides on every pool");
  totals_.count(observation, decision);
  pools_.resize(decision.pools.size());
  for (std::size_t index = 0; index < decision.pools.size(); ++index) {
    const signals::PoolObservation& bounds = observation.pools[index];
    PoolDecision pool = decision.pools[index];
    pool.current = bounds.target_replicas;
    pool.target = std::clamp(pool.target, bounds.min_replicas, bounds.max_replicas);
    if (pool.target != pool.current && !set_target(index, pool.target)) {
      pool.target = pool.current;
      pool.limited_by = Limit::kRefused;
    }
    PoolState& state = pools_[index];
    if (pool.target != pool.current) {
      const int direction = pool.target > pool.current ? 1 : -1;
      if (state.direction == -direction) ++direction_changes_;
      state.direction = direction;
      ++changes_;
    }
    const LastDecision last{pool.reason, pool.limited_by, decision.cause, pool.next_phase_target};
    const bool is_news = std::exchange(state.last, last) != last;
    if (pool.target != pool.current || is_news)
      tick.records.push_back(record_of(decision, pool, observation, index, policy_.name()));
  }
  return tick;
}

}  // namespace penstock::decision
