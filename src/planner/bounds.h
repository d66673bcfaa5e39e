// The last step of every policy: a proposal becomes a number of replicas that the pool may have, and the clamp has a name.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "planner/policy.h"

namespace penstock::planner {

struct Bounds {
  std::uint32_t min = 1;
  std::uint32_t max = 1;  // at least min
};

[[nodiscard]] inline Bounds bounds_of(const signals::PoolObservation& pool) {
  return {pool.min_replicas, std::max(pool.min_replicas, pool.max_replicas)};
}

struct Bounded {
  std::uint32_t replicas = 0;
  Limit limit = Limit::kNone;
};

// Any finite or infinite proposal; rules compute in doubles, so a proposal may lie far outside of what a count can hold.
[[nodiscard]] inline Bounded bound(double proposal, const Bounds& bounds) {
  if (proposal > static_cast<double>(bounds.max)) return {bounds.max, Limit::kMaxReplicas};
  if (proposal < static_cast<double>(bounds.min)) return {bounds.min, Limit::kMinReplicas};
  return {static_cast<std::uint32_t>(proposal), Limit::kNone};
}

// Replicas that count as the pool's size now: those that drain were given up.
[[nodiscard]] inline std::uint32_t provisioned(const signals::PoolObservation& pool) {
  return pool.starting + pool.ready;
}

// The decision of a rule that wants `proposal` replicas for `reason`, within the pool's bounds.
[[nodiscard]] inline PoolDecision decide_bounded(const signals::PoolObservation& pool, double proposal, Reason reason) {
  const Bounded bounded = bound(proposal, bounds_of(pool));
  return {pool.target_replicas, bounded.replicas, reason, bounded.limit, {}};
}

// Keeps the target; bounds that moved since still hold.
[[nodiscard]] inline PoolDecision hold(const signals::PoolObservation& pool, Reason reason) {
  return decide_bounded(pool, static_cast<double>(pool.target_replicas), reason);
}

}  // namespace penstock::planner
