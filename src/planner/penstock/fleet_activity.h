// What an observation tells of the activity of a whole fleet.
#pragma once

#include <cstdint>

#include "planner/penstock/load_outlook.h"
#include "signals/observation.h"

namespace penstock::planner {

[[nodiscard]] CapacityLags lags_of(const signals::Observation& observation);

// A request waits, or an engine has requests. An engine without telemetry may have some, unless it is asleep.
[[nodiscard]] bool has_work(const signals::Observation& observation);

// Requests that wait in front of the pools or in the queues of engines.
[[nodiscard]] std::uint64_t waiting_requests(const signals::PoolObservation& pool);
[[nodiscard]] std::uint64_t waiting_requests(const signals::Observation& observation);

[[nodiscard]] bool replicas_start(const signals::Observation& observation);

// Arrivals per second of the last minute.
[[nodiscard]] double arrival_rate(const signals::Observation& observation);

}  // namespace penstock::planner
