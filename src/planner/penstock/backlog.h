// Replicas that a queue needs beside those that serve what arrives.
#pragma once

#include <cstdint>

#include "core/time.h"
#include "planner/policy.h"
#include "signals/observation.h"

namespace penstock::planner {

// Plans are made for the traffic that arrives, as if no request had waited before. Returns the fleet that also serves
// the waiting requests and those that will have joined them until a replica that is requested now is ready, within as
// long again, at least a minute. `planned` replicas serve the arrivals of the last minute; `start_up` is the time until
// a requested replica is ready. The result is between `planned` and twice the greater of it and the ready replicas; a
// queue that the fleet clears in that time adds nothing.
[[nodiscard]] std::uint32_t fleet_for_backlog(const signals::PoolObservation& pool, std::uint32_t planned,
                                              core::Duration start_up);

// Raises a plan to that fleet, with evidence.
void clear_backlog(const signals::PoolObservation& pool, core::Duration start_up, PoolDecision& plan);

}  // namespace penstock::planner
