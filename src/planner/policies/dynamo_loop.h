// What the load loops of Dynamo's optimization targets have in common.
#pragma once

#include <cstddef>

#include "core/time.h"
#include "signals/observation.h"

namespace penstock::planner {

inline constexpr core::Duration kDynamoLoadInterval = std::chrono::seconds{5};

// A loop only observes while this holds.
[[nodiscard]] inline bool dynamo_is_scaling(const signals::PoolObservation& pool) {
  return pool.target_replicas != pool.ready;
}

// Why a prefill or decode pool must wait for the other one. Aggregated pools have no partner.
struct DynamoPartner {
  bool scaling = false;
  bool incomplete = false;

  void add(const signals::PoolObservation& pool, std::size_t reporting) {
    if (pool.role == signals::Role::kAggregated) return;
    scaling |= dynamo_is_scaling(pool);
    incomplete |= reporting > 0 && reporting != pool.ready;
  }
  [[nodiscard]] DynamoPartner of(const signals::PoolObservation& pool) const {
    return pool.role == signals::Role::kAggregated ? DynamoPartner{} : *this;
  }
};

}  // namespace penstock::planner
