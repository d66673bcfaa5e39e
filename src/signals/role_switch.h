// Replicas that change between prefill and decode without a start.
#pragma once

#include <cstddef>
#include <optional>

#include "signals/observation.h"

namespace penstock::signals {

// The pool whose replicas can take the role of pool `index`; empty if none can. `pools` are of signals::Pool. With
// several pools of a role it is not clear which of them a replica fits, so that none switches.
template <class Pools>
[[nodiscard]] std::optional<std::size_t> switch_partner(const Pools& pools, std::size_t index) {
  const Pool& pool = pools[index];
  if (pool.switch_time <= core::Duration{} || pool.role == Role::kAggregated) return std::nullopt;
  std::optional<std::size_t> partner;
  for (std::size_t i = 0; i < pools.size(); ++i) {
    const Pool& other = pools[i];
    if (i == index || other.role == Role::kAggregated) continue;
    if (partner || other.role == pool.role || other.gpus_per_replica != pool.gpus_per_replica) return std::nullopt;
    partner = i;
  }
  return partner;
}

}  // namespace penstock::signals
