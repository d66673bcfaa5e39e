// The last step of every policy: converts a proposal into an allowed number of replicas and names the clamp.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "planner/policy.h"

namespace penstock::planner {

struct Bounds {
  std::uint32_t min = 1;
  std::uint32_t max = 1;  // At least min.
};

[[nodiscard]] inline Bounds bounds_of(const signals::PoolObservation& pool) {
  return {pool.min_replicas, std::max(pool.min_replicas, pool.max_replicas)};
}

// Bounds of rules that never scale to zero, such as an HPA: its minReplicas is at least 1, also if KEDA creates it.
[[nodiscard]] inline Bounds bounds_above_zero(const signals::PoolObservation& pool) {
  const std::uint32_t least = std::max(pool.min_replicas, 1U);
  return {least, std::max(least, pool.max_replicas)};
}

struct Bounded {
  std::uint32_t replicas = 0;
  Limit limit = Limit::kNone;
};

// Accepts any finite or infinite proposal, because rules compute in doubles and may exceed the range of a count.
[[nodiscard]] inline Bounded bound(double proposal, const Bounds& bounds) {
  if (proposal > static_cast<double>(bounds.max)) return {bounds.max, Limit::kMaxReplicas};
  if (proposal < static_cast<double>(bounds.min)) return {bounds.min, Limit::kMinReplicas};
  return {static_cast<std::uint32_t>(proposal), Limit::kNone};
}

// Replicas that count as the pool's size; draining ones are excluded.
[[nodiscard]] inline std::uint32_t provisioned(const signals::PoolObservation& pool) {
  return pool.starting + pool.ready;
}

// Returns the decision of a rule that proposes `proposal` replicas for `reason`, within the pool's bounds, at least 1.
[[nodiscard]] inline PoolDecision decide_bounded(const signals::PoolObservation& pool, double proposal, Reason reason) {
  const Bounded bounded = bound(proposal, bounds_above_zero(pool));
  return {pool.target_replicas, bounded.replicas, reason, bounded.limit, {}};
}

// The same for a rule that may scale to zero.
[[nodiscard]] inline PoolDecision decide_with_zero(const signals::PoolObservation& pool, double proposal,
                                                   Reason reason) {
  const Bounded bounded = bound(proposal, bounds_of(pool));
  return {pool.target_replicas, bounded.replicas, reason, bounded.limit, {}};
}

// Keeps the target. Bounds that have changed since still apply.
[[nodiscard]] inline PoolDecision hold(const signals::PoolObservation& pool, Reason reason) {
  return decide_with_zero(pool, static_cast<double>(pool.target_replicas), reason);
}

}  // namespace penstock::planner
