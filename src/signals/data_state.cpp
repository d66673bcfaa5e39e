#include "signals/data_state.h"

#include "core/enum_names.h"

namespace penstock::signals {

const char* to_string(DataState state) {
  return core::name_of<DataState::kNoTelemetry>(
      state, {"known", "no_gateway", "no_fleet", "no_replicas", "starting", "no_telemetry"});
}

const char* explain(DataState state) {
  return core::name_of<DataState::kNoTelemetry>(
      state,
      {"", "the gateway does not answer; check --gateway, its token and the gateway's admin address",
       "the replicas are unknown; check that the planner reaches the API server and may read what it scales",
       "the gateway lists no ready replica of a pool; check the replicas of the gateway and their model",
       "the replicas of a pool are starting and have not reported yet",
       "no ready replica of a pool sends telemetry; check that the planner can read the metrics of the engines"});
}

bool is_reporting(const ReplicaObservation& replica, core::Instant now, core::Duration sample_age) {
  return replica.state == ReplicaState::kReady && replica.sample && replica.sample->sampled_at + sample_age > now;
}

namespace {

DataState state_of(const PoolObservation& pool, core::Instant now, bool acts, const DataLimits& limits) {
  bool is_new = false;
  for (const ReplicaObservation& replica : pool.replicas) {
    if (is_reporting(replica, now, limits.sample_age)) return DataState::kKnown;
    is_new = is_new || replica.state_since + limits.first_sample > now;
  }
  if (pool.min_replicas == 0 && pool.replicas.empty()) return DataState::kKnown;  // It may have none.
  if (pool.ready == 0 && acts) return pool.target_replicas == 0 ? DataState::kKnown : DataState::kStarting;
  if (pool.ready == 0 && !is_new) return DataState::kNoReplicas;
  return is_new ? DataState::kStarting : DataState::kNoTelemetry;
}

}  // namespace

DataState data_state(const Observation& seen, std::optional<core::Instant> gateway_at, bool acts,
                     const DataLimits& limits) {
  if (!gateway_at || seen.now > *gateway_at + limits.gateway_age) return DataState::kNoGateway;
  DataState worst = DataState::kKnown;
  for (const PoolObservation& pool : seen.pools) {
    const DataState state = state_of(pool, seen.now, acts, limits);
    // A pool without replicas outweighs one without telemetry.
    if (worst == DataState::kKnown || (state != DataState::kKnown && state < worst)) worst = state;
  }
  return worst;
}

}  // namespace penstock::signals
