#include "signals/observation.h"

#include <algorithm>

#include "core/enum_names.h"

namespace penstock::signals {

const char* to_string(Role role) { return core::name_of<Role::kDecode>(role, {"aggregated", "prefill", "decode"}); }

const char* to_string(ReplicaState state) {
  return core::name_of<ReplicaState::kCrashed>(state,
                                               {"starting", "ready", "draining", "asleep", "stopped", "crashed"});
}

namespace {

FleetTraffic traffic_without(const Observation& observation, Role other) {
  FleetTraffic sum;
  for (const PoolObservation& pool : observation.pools) {
    if (pool.role == other && observation.pools.size() > 1) continue;
    sum.arrivals_total += pool.arrivals_total;
    sum.input_tokens_total += pool.input_tokens_total;
    sum.completed_total += pool.completed_total;
    sum.output_tokens_total += pool.output_tokens_total;
    const TrafficWindow& minute = pool.last_minute;
    sum.last_minute.length = std::max(sum.last_minute.length, minute.length);
    sum.last_minute.arrivals += minute.arrivals;
    sum.last_minute.input_tokens += minute.input_tokens;
    sum.last_minute.output_tokens += minute.output_tokens;
    sum.last_minute.completed += minute.completed;
    sum.last_minute.completed_output_tokens += minute.completed_output_tokens;
    sum.last_minute.failed += minute.failed;
  }
  return sum;
}

}  // namespace

FleetTraffic entry_traffic(const Observation& observation) { return traffic_without(observation, Role::kDecode); }
FleetTraffic exit_traffic(const Observation& observation) { return traffic_without(observation, Role::kPrefill); }

}  // namespace penstock::signals
