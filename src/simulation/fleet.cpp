#include "simulation/fleet.h"

#include <algorithm>

#include "core/result.h"

namespace penstock::simulation {

using signals::ReplicaState;

namespace {

routing::Strategy strategy_of(RouterKind router) {
  switch (router) {
    case RouterKind::kKv: return routing::Strategy::kKv;
    case RouterKind::kRoundRobin: return routing::Strategy::kRoundRobin;
    case RouterKind::kLeastLoaded: return routing::Strategy::kLeastLoaded;
    case RouterKind::kPowerOfTwo: return routing::Strategy::kPowerOfTwo;
  }
  return routing::Strategy::kRoundRobin;
}

}  // namespace

Fleet::Fleet(const RunOptions& options, core::RandomStream random) : options_(options), random_(random) {
  for (std::uint32_t i = 0; i < options.pools.size(); ++i) {
    const PoolSpec& spec = options.pools[i];
    routing::Router router{strategy_of(options.router), spec.engine.block_tokens, random.fork("router").fork(i)};
    pools_.push_back(Pool{spec, spec.replicas, std::move(router), {}, {}, {}, {}, 0, {}});
  }
}

Fleet::Started Fleet::start(std::uint32_t pool_index, core::Instant now, bool ready_at_once) {
  Pool& pool = pools_[pool_index];
  const auto id = static_cast<std::uint32_t>(replicas_.size());
  Replica& replica = replicas_.emplace_back();
  replica.id = id;
  replica.pool = pool_index;
  if (pool.free_slots.empty()) {
    replica.slot = static_cast<std::uint32_t>(pool.replica_at.size());
    pool.replica_at.push_back(id);
  } else {
    replica.slot = pool.free_slots.back();
    pool.free_slots.pop_back();
    pool.replica_at[replica.slot] = id;
  }
  replica.requested_at = replica.state_since = now;
  replica.engine = std::make_unique<engine::Engine>(pool.spec.engine, *pool.spec.step_time, options_.merge_steps);
  if (options_.router == RouterKind::kKv) replica.engine->cache().listen();
  if (pool.spec.role == signals::Role::kPrefill) replica.engine->hold_prefilled();
  if (id < options_.faults.slow_replicas) replica.engine->slow_down(options_.faults.slow_factor);
  pool.replicas.push_back(id);
  ++alive_;
  ended_.peak_replicas = std::max(ended_.peak_replicas, alive_);
  if (ready_at_once) {
    make_ready(id, now);
    return {id, core::Duration{}};
  }
  const double spread = 1.0 + options_.faults.start_up_spread * random_.uniform();
  return {id, core::from_seconds(core::to_seconds(pool.spec.start_up) * spread)};
}

void Fleet::make_ready(std::uint32_t id, core::Instant now) {
  Replica& replica = replicas_[id];
  replica.state = ReplicaState::kReady;
  replica.state_since = now;
  pools_[replica.pool].router.set_eligible(replica.slot, true);
}

void Fleet::drain(std::uint32_t id, core::Instant now) {
  Replica& replica = replicas_[id];
  PENSTOCK_ASSERT(replica.state == ReplicaState::kReady, "only a ready replica drains");
  replica.state = ReplicaState::kDraining;
  replica.state_since = now;
  pools_[replica.pool].router.set_eligible(replica.slot, false);
}

void Fleet::end(std::uint32_t id, core::Instant now, ReplicaState state) {
  Replica& replica = replicas_[id];
  Pool& pool = pools_[replica.pool];
  settle(replica, now, ended_);
  replica.state = state;
  replica.state_since = replica.ended_at = now;
  pool.generated_by_ended += replica.engine->state(now).generated_tokens;
  replica.engine.reset();
  pool.router.set_eligible(replica.slot, false);
  pool.router.forget(replica.slot);
  pool.free_slots.push_back(replica.slot);
  std::erase(pool.replicas, id);
  --alive_;
}

std::vector<std::uint32_t> Fleet::victims(std::uint32_t pool_index, std::uint32_t count) const {
  const Pool& pool = pools_[pool_index];
  std::vector<std::uint32_t> candidates;
  for (const std::uint32_t id : pool.replicas)
    if (replicas_[id].state != ReplicaState::kDraining) candidates.push_back(id);
  const auto key = [&](std::uint32_t id) {
    const Replica& replica = replicas_[id];
    const bool starting = replica.state == ReplicaState::kStarting;
    const std::uint32_t open = starting ? 0 : pool.router.load(replica.slot).open_requests;
    return std::tuple{!starting, open, ~id};
  };
  std::sort(candidates.begin(), candidates.end(), [&](auto a, auto b) { return key(a) < key(b); });
  if (candidates.size() > count) candidates.resize(count);
  return candidates;
}

std::uint32_t Fleet::count(std::uint32_t pool, ReplicaState state) const {
  const auto& ids = pools_[pool].replicas;
  return static_cast<std::uint32_t>(
      std::count_if(ids.begin(), ids.end(), [&](std::uint32_t id) { return replicas_[id].state == state; }));
}

std::uint64_t Fleet::generated_tokens(std::uint32_t pool, core::Instant now) const {
  std::uint64_t tokens = pools_[pool].generated_by_ended;
  for (const std::uint32_t id : pools_[pool].replicas) tokens += replicas_[id].engine->state(now).generated_tokens;
  return tokens;
}

FleetSnapshot Fleet::snapshot(core::Instant now) const {
  FleetSnapshot snapshot;
  snapshot.generated_tokens = ended_.generated_tokens;
  for (const Pool& pool : pools_) {
    snapshot.target += pool.target;
    std::uint32_t ready = 0;
    snapshot.queued_requests += pool.unrouted.size();
    for (const std::uint32_t id : pool.replicas) {
      const Replica& replica = replicas_[id];
      const engine::EngineState state = replica.engine->state(now);
      snapshot.queued_requests += state.waiting;
      snapshot.running_requests += state.running;
      snapshot.generated_tokens += state.generated_tokens;
      snapshot.starting += replica.state == ReplicaState::kStarting ? 1 : 0;
      snapshot.draining += replica.state == ReplicaState::kDraining ? 1 : 0;
      if (replica.state != ReplicaState::kReady) continue;
      ++ready;
      snapshot.kv_used_tokens += state.active_kv_tokens;
      snapshot.kv_capacity_tokens += state.total_kv_tokens;
    }
    snapshot.ready += ready;
    snapshot.ready_by_pool.push_back(ready);
  }
  return snapshot;
}

void Fleet::settle(const Replica& replica, core::Instant end, FleetTotals& totals) const {
  const PoolSpec& spec = pools_[replica.pool].spec;
  const core::Duration life = end - replica.requested_at;
  totals.replica_time += life;
  totals.gpu_time += life * spec.gpus_per_replica;
  totals.cost += core::to_hours(life) * spec.gpus_per_replica * spec.price_per_gpu_hour;
  const engine::EngineState state = replica.engine->state(end);
  totals.preemptions += state.preemptions;
  totals.prompt_tokens += state.prompt_tokens;
  totals.hit_tokens += state.prefix_hit_tokens;
  totals.generated_tokens += state.generated_tokens;
  totals.token_gaps_ms.merge(replica.engine->token_gaps_ms());
}

FleetTotals Fleet::totals(core::Instant end) const {
  FleetTotals totals = ended_;
  for (const Pool& pool : pools_)
    for (const std::uint32_t id : pool.replicas) settle(replicas_[id], end, totals);
  return totals;
}

}  // namespace penstock::simulation
