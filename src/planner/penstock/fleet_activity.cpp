#include "planner/penstock/fleet_activity.h"

#include <algorithm>

namespace penstock::planner {

CapacityLags lags_of(const signals::Observation& observation) {
  CapacityLags lags{};
  for (const signals::PoolObservation& pool : observation.pools) {
    lags.start_up = std::max(lags.start_up, pool.start_up);
    lags.soonest = std::max(lags.soonest, pool.can_sleep() ? pool.wake_time : pool.start_up);
  }
  return lags;
}

bool has_work(const signals::Observation& observation) {
  for (const signals::PoolObservation& pool : observation.pools) {
    if (pool.unrouted_requests > 0) return true;
    for (const signals::ReplicaObservation& replica : pool.replicas) {
      if (replica.state == signals::ReplicaState::kAsleep) continue;
      if (!replica.sample || replica.sample->running_requests + replica.sample->queued_requests > 0) return true;
    }
  }
  return false;
}

std::uint64_t waiting_requests(const signals::PoolObservation& pool) {
  std::uint64_t waiting = pool.unrouted_requests;
  for (const signals::ReplicaObservation& replica : pool.replicas)
    if (replica.sample) waiting += replica.sample->queued_requests;
  return waiting;
}

std::uint64_t waiting_requests(const signals::Observation& observation) {
  std::uint64_t waiting = 0;
  for (const signals::PoolObservation& pool : observation.pools) waiting += waiting_requests(pool);
  return waiting;
}

bool replicas_start(const signals::Observation& observation) {
  return std::any_of(observation.pools.begin(), observation.pools.end(),
                     [](const signals::PoolObservation& pool) { return pool.starting > 0; });
}

double arrival_rate(const signals::Observation& observation) {
  const signals::TrafficWindow traffic = signals::entry_traffic(observation).last_minute;
  const double seconds = core::to_seconds(traffic.length);
  return seconds > 0.0 ? static_cast<double>(traffic.arrivals) / seconds : 0.0;
}

}  // namespace penstock::planner
