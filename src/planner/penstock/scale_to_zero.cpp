#include "planner/penstock/scale_to_zero.h"

#include <algorithm>

namespace penstock::planner {
namespace {

// An engine without telemetry may have some, unless it is asleep.
bool has_requests(const signals::PoolObservation& pool) {
  return std::any_of(pool.replicas.begin(), pool.replicas.end(), [](const signals::ReplicaObservation& replica) {
    if (replica.state == signals::ReplicaState::kAsleep) return false;
    return !replica.sample || replica.sample->running_requests + replica.sample->queued_requests > 0;
  });
}

}  // namespace

bool ScaleToZero::is_requested(const signals::PoolObservation& pool, const PoolState& last) {
  const bool has_arrivals = last.arrivals_total && pool.arrivals_total != *last.arrivals_total;
  return pool.unrouted_requests > 0 || has_arrivals;
}

void ScaleToZero::observe(const signals::Observation& observation) {
  const core::Instant now = observation.now;
  const bool is_first = pools_.size() != observation.pools.size();
  pools_.resize(observation.pools.size());
  const bool in_series = !pools_.empty() && observation.pools.front().role != signals::Role::kAggregated;
  bool any_requested = false, any_busy = false;
  std::vector<bool> requested(pools_.size()), busy(pools_.size());
  for (std::size_t i = 0; i < pools_.size(); ++i) {
    const signals::PoolObservation& pool = observation.pools[i];
    // Nothing is known of the time before. A pool without replicas stays so until a request waits.
    requested[i] = is_requested(pool, pools_[i]);
    busy[i] = requested[i] || has_requests(pool) || (is_first && pool.target_replicas > 0);
    any_requested = any_requested || requested[i];
    any_busy = any_busy || busy[i];
  }
  for (std::size_t i = 0; i < pools_.size(); ++i) {
    const signals::PoolObservation& pool = observation.pools[i];
    PoolState& state = pools_[i];
    if (in_series ? any_busy : busy[i]) state.busy_at = now;
    state.busy_at = std::min(state.busy_at, now);  // The clock may have gone back.
    state.arrivals_total = pool.arrivals_total;
    state.idle_time = now - state.busy_at;
    const bool is_wanted = in_series ? any_requested : requested[i];
    const bool may_have_none = pool.min_replicas == 0, has_none = pool.target_replicas == 0;
    state.needs_none = may_have_none && (has_none ? !is_wanted : state.idle_time >= after_);
    state.needs_first = may_have_none && has_none && is_wanted;
  }
}

}  // namespace penstock::planner
