#include "simulation/fleet.h"

#include <algorithm>

#include "core/result.h"
#include "signals/role_switch.h"

namespace penstock::simulation {

using signals::ReplicaState;

Fleet::Fleet(const RunOptions& options, const std::string& model, dispatch::Dispatcher& dispatcher,
             core::RandomStream random)
    : options_(options), model_(model), dispatcher_(dispatcher), random_(random) {
  for (const PoolSpec& spec : options.pools) {
    Pool& pool = pools_.emplace_back(Pool{spec, spec.replicas, 0, {}, 0, {}});
    if (spec.wake_time > core::Duration{} && spec.max_replicas > spec.replicas)
      pool.asleep_target = std::min(spec.min_asleep, spec.max_replicas - spec.replicas);
  }
}

void Fleet::publish(core::Instant now) {
  std::vector<dispatch::ReplicaSpec> specs;
  for (const Pool& pool : pools_) {
    for (const std::uint32_t id : pool.replicas) {
      Replica& listed = replica(id);
      listed.listed = listed.state != ReplicaState::kAsleep;
      if (!listed.listed) continue;
      dispatch::ReplicaSpec& spec = specs.emplace_back();
      spec.id = pool.spec.name + "-" + std::to_string(id);
      spec.number = id;
      spec.model = model_;
      spec.pool = pool.spec.name;
      spec.role = pool.spec.role;
      const ReplicaState state = listed.state;
      spec.phase = state == ReplicaState::kReady      ? dispatch::ReplicaPhase::kServing
                   : state == ReplicaState::kDraining ? dispatch::ReplicaPhase::kDraining
                                                      : dispatch::ReplicaPhase::kWarming;
      spec.kv_tokens = std::uint64_t{pool.spec.engine.kv_blocks} * pool.spec.engine.block_tokens;
      spec.context_tokens =
          static_cast<std::uint32_t>(std::min<std::uint64_t>(engine::context_tokens(pool.spec.engine), UINT32_MAX));
    }
  }
  dispatcher_.set_replicas(specs, now);
  for (const dispatch::ReplicaSpec& spec : specs)
    replica(static_cast<std::uint32_t>(spec.number)).slot = *dispatcher_.slot_of(spec.id);
}

void Fleet::begin_engine(Replica& replica, core::Instant now) {
  const PoolSpec& spec = pools_[replica.pool].spec;
  replica.engine = std::make_unique<engine::Engine>(spec.engine, *spec.step_time, options_.merge_steps);
  if (options_.router == routing::Strategy::kKv) replica.engine->cache().listen();
  if (spec.role == signals::Role::kPrefill) replica.engine->hold_prefilled();
  if (!options_.details) replica.engine->skip_token_gaps();
  replica.engine->slow_down(slow_factor(options_.faults, replica.id, spec.name, now), now);
}

Replica& Fleet::add(std::uint32_t id, std::uint32_t pool_index, core::Instant now) {
  Pool& pool = pools_[pool_index];
  PENSTOCK_ASSERT(id == replicas_.size() + 1, "ids follow each other");
  Replica& replica = replicas_.emplace_back();
  replica.id = id;
  replica.pool = pool_index;
  replica.requested_at = replica.state_since = now;
  begin_engine(replica, now);
  pool.replicas.push_back(id);
  ++awake_;
  ended_.peak_replicas = std::max(ended_.peak_replicas, awake_);
  return replica;
}

void Fleet::add_ready(std::uint32_t pool, actuation::Stage stage, core::Instant now) {
  actuation::Replica& replica = state_.replicas.emplace_back();
  replica.id = state_.next_id++;
  replica.pool = pools_[pool].spec.name;
  replica.stage = stage;
  replica.requested_at = replica.since = now;
  const std::uint32_t peak = ended_.peak_replicas;
  Replica& added = add(replica.id, pool, now);
  added.healthy = added.warm = true;
  added.state = actuation::observed(replica);
  if (stage != actuation::Stage::kAsleep) return;
  added.engine_asleep = true;
  added.asleep_since = now;
  --awake_;
  ended_.peak_replicas = peak;
}

std::uint32_t Fleet::add_ready(core::Instant now) {
  for (std::uint32_t pool = 0; pool < pools_.size(); ++pool) {
    for (std::uint32_t i = 0; i < pools_[pool].target; ++i) add_ready(pool, actuation::Stage::kServing, now);
    for (std::uint32_t i = 0; i < pools_[pool].asleep_target; ++i) add_ready(pool, actuation::Stage::kAsleep, now);
  }
  publish(now);
  return static_cast<std::uint32_t>(replicas_.size());
}

// The steps of this instant were taken before anybody looks, and the gateway is asked before the engine. Looks
// therefore follow one unit of time after the other.
std::vector<actuation::Seen> Fleet::look(core::Instant now) const {
  const core::Instant gateway_at = now + core::Duration{1}, engine_at = now + core::Duration{2};
  std::vector<actuation::Seen> all;
  for (const actuation::Replica& each : state_.replicas) {
    if (actuation::has_ended(each.stage) || each.stage == actuation::Stage::kRequested) continue;
    const Replica& replica = replicas_[each.id - 1];
    actuation::Seen& seen = all.emplace_back();
    seen.replica = each.id;
    seen.process = replica.alive() ? actuation::ProcessSeen::kAlive : actuation::ProcessSeen::kGone;
    if (!replica.alive()) continue;
    const bool routes = replica.state == ReplicaState::kReady;
    seen.gateway = {gateway_at, routes, replica.listed ? dispatcher_.open_requests(replica.slot) : 0};
    const auto requests = static_cast<std::uint32_t>(replica.engine->open_count());
    // An engine without requests is busy only with moving KV away.
    const actuation::OpenWork open{requests, requests == 0 && !replica.engine->idle() ? 1U : 0U};
    seen.engine = {engine_at, replica.healthy, open, replica.engine_asleep, replica.switching};
    if (replica.warm) seen.warm_up = actuation::WarmUpSeen{};
  }
  return all;
}

std::vector<planner::global::PoolCounts> Fleet::pool_counts() const {
  std::vector<planner::global::PoolCounts> all;
  for (std::uint32_t pool = 0; pool < pools_.size(); ++pool)
    all.push_back({pools_[pool].target, count(pool, ReplicaState::kStarting) + count(pool, ReplicaState::kReady),
                   count(pool, ReplicaState::kDraining)});
  return all;
}

std::vector<actuation::Step> Fleet::advance(core::Instant now) {
  ++looks_;
  std::vector<actuation::PoolWant> wants;
  for (std::size_t i = 0; i < pools_.size(); ++i) {
    const Pool& pool = pools_[i];
    wants.push_back({pool.spec.name, pool.target, {}, pool.asleep_target});
    if (const auto partner = signals::switch_partner(options_.pools, i))
      wants.back().role_switch = {pools_[*partner].spec.name, pool.spec.switch_time, pool.spec.start_up};
  }
  std::vector<actuation::Step> steps = actuation::advance(state_, wants, look(now), options_.life_cycle, now).steps;
  for (const actuation::Replica& each : state_.replicas) {
    if (each.id > replicas_.size() || !replicas_[each.id - 1].alive()) continue;
    Replica& replica = replicas_[each.id - 1];
    const ReplicaState state = actuation::observed(each);
    if (replica.state == state) continue;
    replica.state = state;
    replica.state_since = now;
  }
  // Replicas that are idle at the same instant stop in the order in which they began to drain.
  const auto order = [&](const actuation::Step& step) {
    // It falls asleep with an earlier step.
    if (step.kind == actuation::StepKind::kWake && !replica(step.replica).asleep_since) return UINT64_MAX;
    return step.why == actuation::StepReason::kDrained ? replica(step.replica).drain_order : 0;
  };
  std::stable_sort(steps.begin(), steps.end(), [&](const auto& a, const auto& b) { return order(a) < order(b); });
  return steps;
}

std::optional<core::Instant> Fleet::next_start(std::uint32_t pool) const {
  for (const actuation::PoolState& state : state_.pools)
    if (state.name == pools_[pool].spec.name) return state.start_after;
  return std::nullopt;
}

std::uint32_t Fleet::pool_named(const std::string& name) const {
  const auto pool =
      std::find_if(pools_.begin(), pools_.end(), [&](const Pool& each) { return each.spec.name == name; });
  PENSTOCK_ASSERT(pool != pools_.end(), "replicas belong to the pools of the run");
  return static_cast<std::uint32_t>(pool - pools_.begin());
}

core::Duration Fleet::start(std::uint32_t id, core::Instant now) {
  const std::uint32_t pool = pool_named(state_.find(id)->pool);
  add(id, pool, now);
  actuation::started(state_, id, {}, now);
  publish(now);
  const double spread = 1.0 + options_.faults.start_up_spread * random_.uniform();
  return core::from_seconds(core::to_seconds(pools_[pool].spec.start_up) * spread);
}

void Fleet::drain(std::uint32_t id, core::Instant now) {
  replica(id).drain_order = ++drains_;
  publish(now);
}

void Fleet::sleep(std::uint32_t id, core::Instant now) {
  Replica& replica = this->replica(id);
  replica.engine->cache().discard_unused();
  replica.engine->cache().events().clear();
  replica.engine_asleep = true;
  replica.asleep_since = now;
  replica.on_its_way.clear();
  replica.reported.reset();
  replica.reported_idle = false;
  --awake_;
  publish(now);
}

core::Duration Fleet::wake(std::uint32_t id, core::Instant now) {
  Replica& replica = this->replica(id);
  replica.asleep_time += now - *replica.asleep_since;
  replica.asleep_since.reset();
  ++awake_;
  ended_.peak_replicas = std::max(ended_.peak_replicas, awake_);
  publish(now);
  return pools_[replica.pool].spec.wake_time;
}

core::Duration Fleet::switch_role(std::uint32_t id, core::Instant now) {
  Replica& replica = this->replica(id);
  Pool& left = pools_[replica.pool];
  settle(replica, now, ended_);
  ++ended_.switches;
  left.generated_by_ended += replica.engine->state(now).generated_tokens;
  std::erase(left.replicas, id);
  replica.pool = pool_named(state_.find(id)->pool);
  Pool& joined = pools_[replica.pool];
  joined.replicas.insert(std::upper_bound(joined.replicas.begin(), joined.replicas.end(), id), id);
  replica.requested_at = now;  // The time before is settled.
  replica.asleep_time = {};
  begin_engine(replica, now);
  replica.switching = true;
  replica.on_its_way.clear();
  replica.reported.reset();
  replica.reported_idle = false;
  publish(now);
  return joined.spec.switch_time;
}

void Fleet::end(std::uint32_t id, core::Instant now) {
  Replica& replica = this->replica(id);
  Pool& pool = pools_[replica.pool];
  settle(replica, now, ended_);
  pool.generated_by_ended += replica.engine->state(now).generated_tokens;
  replica.engine.reset();
  std::erase(pool.replicas, id);
  if (!replica.asleep_since) --awake_;
  publish(now);
}

bool Fleet::can_serve(const workload::Request& request) const {
  if (!has_pool_rules()) return fits_all(request);
  return std::any_of(pools_.begin(), pools_.end(), [&](const Pool& pool) {
    return std::uint64_t{request.input_tokens} + request.output_tokens <= engine::context_tokens(pool.spec.engine);
  });
}

bool Fleet::fits_all(const workload::Request& request) const {
  return std::all_of(pools_.begin(), pools_.end(), [&](const Pool& pool) {
    if (pool.spec.role == signals::Role::kDecode && request.output_tokens == 1) return true;
    engine::EngineRequest made;
    made.input_tokens = request.input_tokens;
    made.output_tokens = pool.spec.role == signals::Role::kPrefill ? 1 : request.output_tokens;
    return engine::can_fit(pool.spec.engine, made);
  });
}

std::vector<std::uint32_t> Fleet::concerned_by(const FaultEvent& event) const {
  std::vector<std::uint32_t> ids;
  for (const Pool& pool : pools_)
    for (const std::uint32_t id : pool.replicas)
      if (event.concerns(id, pool.spec.name)) ids.push_back(id);
  return ids;
}

std::uint32_t Fleet::count(std::uint32_t pool, ReplicaState state) const {
  const auto& ids = pools_[pool].replicas;
  return static_cast<std::uint32_t>(
      std::count_if(ids.begin(), ids.end(), [&](std::uint32_t id) { return replicas_[id - 1].state == state; }));
}

std::uint32_t Fleet::count_asleep(std::uint32_t pool) const {
  const auto& ids = pools_[pool].replicas;
  return static_cast<std::uint32_t>(std::count_if(
      ids.begin(), ids.end(), [&](std::uint32_t id) { return replicas_[id - 1].asleep_since.has_value(); }));
}

std::uint32_t Fleet::count_switching(std::uint32_t pool) const { return state_.switching_to(pools_[pool].spec.name); }

std::uint64_t Fleet::generated_tokens(std::uint32_t pool, core::Instant now) const {
  std::uint64_t tokens = pools_[pool].generated_by_ended;
  for (const std::uint32_t id : pools_[pool].replicas) tokens += replicas_[id - 1].engine->state(now).generated_tokens;
  return tokens;
}

FleetSnapshot Fleet::snapshot(core::Instant now, std::uint32_t waiting) const {
  FleetSnapshot snapshot;
  snapshot.queued_requests = waiting;
  snapshot.generated_tokens = ended_.generated_tokens;
  for (const Pool& pool : pools_) {
    snapshot.target += pool.target;
    std::uint32_t ready = 0;
    for (const std::uint32_t id : pool.replicas) {
      const Replica& replica = replicas_[id - 1];
      const engine::EngineState state = replica.engine->state(now);
      snapshot.queued_requests += state.waiting;
      snapshot.running_requests += state.running;
      snapshot.generated_tokens += state.generated_tokens;
      if (replica.asleep_since) {
        ++snapshot.asleep;
        snapshot.asleep_paid += pool.spec.sleep_price;
        continue;
      }
      snapshot.starting += replica.state == ReplicaState::kStarting || replica.state == ReplicaState::kAsleep ? 1 : 0;
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
  const core::Duration asleep =
      replica.asleep_time + (replica.asleep_since ? end - *replica.asleep_since : core::Duration{});
  const core::Duration awake = end - replica.requested_at - asleep;
  const core::Duration paid = awake + core::from_seconds(core::to_seconds(asleep) * spec.sleep_price);
  totals.replica_time += awake;
  totals.asleep_time += asleep;
  totals.gpu_time += paid * spec.gpus_per_replica;
  const double cost = core::to_hours(paid) * spec.gpus_per_replica * spec.price_per_gpu_hour;
  totals.cost += cost;
  if (spec.role == signals::Role::kPrefill) totals.prefill_cost += cost;
  const engine::EngineState state = replica.engine->state(end);
  totals.preemptions += state.preemptions;
  totals.prompt_tokens += state.prompt_tokens;
  totals.hit_tokens += state.prefix_hit_tokens;
  totals.generated_tokens += state.generated_tokens;
  totals.token_gaps_ms.merge(replica.engine->token_gaps_ms());
  totals.pools.resize(pools_.size());
  PoolTotals& pool = totals.pools[replica.pool];
  const engine::IterationTotals& iterations = state.iterations;
  pool.cost += cost;
  pool.completed += state.completed;
  pool.prompt_tokens += state.prompt_tokens;
  pool.hit_tokens += state.prefix_hit_tokens;
  pool.generated_tokens += state.generated_tokens;
  pool.busy += iterations.busy();
  pool.replica_time += awake;
  pool.steps += iterations.steps();
  pool.step_sequences += iterations.prefill.decode_sequences + iterations.decode.decode_sequences;
}

FleetTotals Fleet::totals(core::Instant end) const {
  FleetTotals totals = ended_;
  for (const Pool& pool : pools_)
    for (const std::uint32_t id : pool.replicas) settle(replicas_[id - 1], end, totals);
  totals.gpu_time -= unscored_.gpu_time;
  totals.cost -= unscored_.cost;
  totals.prefill_cost -= unscored_.prefill_cost;
  totals.replica_time -= unscored_.replica_time;
  totals.asleep_time -= unscored_.asleep_time;
  totals.preemptions -= unscored_.preemptions;
  totals.switches -= unscored_.switches;
  totals.prompt_tokens -= unscored_.prompt_tokens;
  totals.hit_tokens -= unscored_.hit_tokens;
  totals.generated_tokens -= unscored_.generated_tokens;
  totals.pools.resize(pools_.size());
  for (std::size_t i = 0; i < unscored_.pools.size(); ++i) {
    PoolTotals& pool = totals.pools[i];
    const PoolTotals& before = unscored_.pools[i];
    pool.cost -= before.cost;
    pool.completed -= before.completed;
    pool.prompt_tokens -= before.prompt_tokens;
    pool.hit_tokens -= before.hit_tokens;
    pool.generated_tokens -= before.generated_tokens;
    pool.busy -= before.busy;
    pool.replica_time -= before.replica_time;
    pool.steps -= before.steps;
    pool.step_sequences -= before.step_sequences;
  }
  return totals;
}

void Fleet::begin_scoring(core::Instant now) {
  unscored_ = totals(now);
  ended_.token_gaps_ms.clear();
  for (Pool& pool : pools_)
    for (const std::uint32_t id : pool.replicas) replica(id).engine->clear_token_gaps();
  ended_.peak_replicas = awake_;
}

}  // namespace penstock::simulation
