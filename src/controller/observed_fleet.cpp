#include "controller/observed_fleet.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

namespace penstock::controller {
namespace {

// An unhealthy replica takes no traffic, as if it were still starting.
signals::ReplicaState state_of(const GatewayReplica& replica) {
  if (replica.phase == "draining") return signals::ReplicaState::kDraining;
  return replica.phase == "serving" && replica.healthy ? signals::ReplicaState::kReady
                                                       : signals::ReplicaState::kStarting;
}

// What a worker reports of itself replaces its part.
void take_messages(const signals::EngineSample& own, std::optional<signals::EngineSample>& sample) {
  if (!sample) {
    sample = own;
    return;
  }
  sample->sampled_at = std::min(sample->sampled_at, own.sampled_at);
  sample->queued_requests = own.queued_requests;
  sample->running_requests = own.running_requests;
  sample->queued_prefill_tokens = own.queued_prefill_tokens;
  sample->queued_kv_tokens = own.queued_kv_tokens;
  sample->inflight_prefill_tokens = own.inflight_prefill_tokens;
  sample->scheduled_kv_tokens = own.scheduled_kv_tokens;
  sample->iterations = own.iterations;
}

void take_cache(const connect::DynamoWorker& worker, const std::optional<telemetry::WorkerCache>& cache,
                signals::EngineSample& sample) {
  if (worker.kv_tokens) sample.kv_capacity_tokens = *worker.kv_tokens;
  std::optional<std::uint64_t> used;
  if (cache && cache->used_blocks && worker.block_tokens)
    used = *cache->used_blocks * *worker.block_tokens;
  else if (sample.scheduled_kv_tokens && sample.inflight_prefill_tokens)
    used = *sample.scheduled_kv_tokens + *sample.inflight_prefill_tokens;  // The tokens of running sequences.
  if (used && worker.kv_tokens) sample.kv_used_tokens = std::min(*used, *worker.kv_tokens);
  if (cache && cache->has_events) sample.evictions_total = cache->removed_blocks;
}

}  // namespace

ObservedFleet::ObservedFleet(net::Loop& loop, net::Client& client, logging::Log& log, ObservedFleetOptions options)
    : options_(std::move(options)), events_(log), watch_(loop, client, events_, options_.engines) {
  if (options_.dynamo)
    discovery_.emplace(
        loop, client, *options_.dynamo, [this](const connect::DynamoRecords& records) { records_ = records; },
        [this, &loop](const std::string& cause) {
          events_.add(loop.now(), true, {}, "the discovery of Dynamo cannot be read: " + cause);
          events_.log().write(logging::Event::kDynamoDiscoveryFailed, {{"cause", cause}});
        });
}

std::optional<std::string> ObservedFleet::front_end() const {
  if (!discovery_) return std::nullopt;
  for (const auto& [id, known] : known_)
    if (watch_.kind_of(known.number) == telemetry::EngineKind::kDynamo) return id;
  return std::nullopt;
}

// A worker that stays keeps its number.
void ObservedFleet::set_workers(Known& known, const std::vector<std::string>& names) {
  const auto before = std::exchange(known.workers, {});
  for (const std::string& name : names) {
    const auto same = std::find_if(before.begin(), before.end(), [&](const auto& each) { return each.first == name; });
    known.workers.emplace_back(name, same == before.end() ? next_++ : same->second);
  }
  std::vector<std::uint32_t> numbers;
  for (const auto& worker : known.workers) numbers.push_back(worker.second);
  known.parts.set(std::move(numbers), watch_.sample_of(known.number));
}

// Dynamo's discovery names the workers, otherwise the gateway knows their number.
std::vector<std::string> ObservedFleet::workers_of(const GatewayReplica& replica, bool is_front_end) const {
  std::vector<std::string> names;
  if (is_front_end)
    for (const connect::DynamoWorker& worker : records_.workers_of(options_.model))
      names.push_back(std::to_string(worker.id));
  if (names.empty() && replica.workers > 1)
    for (std::uint32_t index = 1; index <= replica.workers; ++index) names.push_back(std::to_string(index));
  return names;
}

std::vector<ObservedFleetOptions::ObservedPool>::const_iterator ObservedFleet::pool_of(
    const GatewayReplica& replica) const {
  const auto has_role = [&](const auto& pool) { return replica.role == signals::to_string(pool.role); };
  const auto first = std::find_if(options_.pools.begin(), options_.pools.end(), has_role);
  if (std::count_if(options_.pools.begin(), options_.pools.end(), has_role) < 2) return first;
  return std::find_if(first, options_.pools.end(),
                      [&](const auto& pool) { return has_role(pool) && pool.name == replica.pool; });
}

std::string ObservedFleet::no_pool_for(const GatewayReplica& replica) const {
  for (const auto& pool : options_.pools)
    if (replica.role == signals::to_string(pool.role))
      return fmt::format("no pool is called {}; add such a pool, or correct the pool of the replica", replica.pool);
  return fmt::format("no pool has the role {}; add such a pool, or correct the role of the replica", replica.role);
}

void ObservedFleet::update_gateway(const GatewayState& state, core::Instant at) {
  std::map<std::string, Known> next;
  std::vector<WatchedEngine> engines;
  std::map<std::string, std::string> left_out;
  const std::optional<std::string> front = front_end();
  const auto log_state = [&](const std::string& id, const std::string& from, std::string_view to) {
    events_.log().write(logging::Event::kReplicaState, {{"replica", id}, {"from", from}, {"to", to}});
  };
  for (const auto& [id, replica] : state.replicas) {
    const auto pool = pool_of(replica);
    const bool ours = options_.model.empty() || replica.model == options_.model;
    if (!ours) {
      left_out.emplace(id,
                       fmt::format("it serves the model {}, and this planner scales {}; correct its URL, or start a "
                                   "planner with --model {}",
                                   replica.model, options_.model, replica.model));
      continue;
    }
    if (pool == options_.pools.end()) {
      left_out.emplace(id, no_pool_for(replica));
      continue;
    }
    Known known;
    if (const auto before = known_.find(id); before != known_.end()) {
      known = before->second;
    } else {
      known.number = next_++;
      known.since = at;
      events_.add(at, false, {}, "the gateway lists " + id);
      log_state(id, {}, replica.phase);
    }
    known.pool = static_cast<std::size_t>(pool - options_.pools.begin());
    known.url = replica.url;
    known.model = replica.model;
    if (!known.phase.empty() && known.phase != replica.phase) log_state(id, known.phase, replica.phase);
    known.phase = replica.phase;
    if (std::exchange(known.state, state_of(replica)) != known.state) known.since = at;
    set_workers(known, workers_of(replica, front == id));
    known.has_no_workers = front && front != id && watch_.kind_of(known.number) == telemetry::EngineKind::kDynamo;
    const bool has_channels = front == id && replica.fpm.empty();
    const auto endpoints = [&](connect::DynamoTopic topic) {
      return records_.endpoints_of(options_.model, options_.nats_server, topic);
    };
    WatchedEngine& engine = engines.emplace_back(WatchedEngine{known.number, replica.url, replica.fpm, id});
    if (has_channels) engine.fpm = endpoints(connect::DynamoTopic::kForwardPass);
    if (front == id) engine.kv = endpoints(connect::DynamoTopic::kKvCache);
    next.emplace(id, std::move(known));
  }
  for (const auto& [id, gone] : known_)
    if (!next.contains(id)) {
      events_.add(at, false, {}, "the gateway does not list " + id + " any more");
      log_state(id, gone.phase, "gone");
    }
  known_ = std::move(next);
  report_left_out(std::move(left_out), at);
  watch_.watch(engines);
}

// Each once. With several models at one gateway that is usual; a planner that has no replica at all needs attention.
void ObservedFleet::report_left_out(std::map<std::string, std::string> left_out, core::Instant at) {
  for (const auto& [id, cause] : left_out) {
    const auto before = left_out_.find(id);
    if (before != left_out_.end() && before->second == cause) continue;
    events_.add(at, known_.empty(), {}, fmt::format("{} is left out: {}", id, cause));
    events_.log().write(logging::Event::kReplicaLeftOut, {{"replica", id}, {"cause", cause}});
  }
  left_out_ = std::move(left_out);
}

void ObservedFleet::fill(std::size_t pool, signals::PoolObservation& seen) const {
  add_replicas(replicas(pool), seen);
  // Another system scales this pool: its target is the number of its replicas.
  seen.target_replicas = seen.starting + seen.ready;
}

std::vector<ReplicaView> ObservedFleet::replicas(std::size_t pool) const {
  std::vector<ReplicaView> views;
  for (const auto& [id, known] : known_) {
    if (known.pool != pool || known.has_no_workers) continue;
    if (known.workers.empty())
      views.push_back({id,
                       known.phase,
                       known.url,
                       known.since,
                       {known.number, known.state, known.since, watch_.sample_of(known.number)},
                       watch_.messages_of(known.number),
                       known.model,
                       watch_.kv_messages_of(known.number)});
    else
      add_workers(id, known, views);
  }
  return views;
}

// The figures of an address with many workers are those of its first worker, so that they count once.
std::optional<telemetry::TokenFigures> ObservedFleet::tokens_of(std::uint32_t replica,
                                                                std::optional<double> kv_bytes_per_token) const {
  for (const auto& [id, known] : known_)
    if (!known.workers.empty() && known.workers.front().second == replica) {
      auto figures = watch_.tokens_of(known.number, kv_bytes_per_token);
      if (figures) figures->workers = static_cast<std::uint32_t>(known.workers.size());
      return figures;
    }
  return watch_.tokens_of(replica, kv_bytes_per_token);
}

void ObservedFleet::add_workers(const std::string& id, const Known& known, std::vector<ReplicaView>& views) const {
  const std::optional<signals::EngineSample> whole = watch_.sample_of(known.number);
  const std::map<std::string, signals::EngineSample> measured = watch_.workers_of(known.number);
  std::map<std::string, connect::DynamoWorker> records;
  for (connect::DynamoWorker& worker : records_.workers_of(options_.model))
    records.emplace(std::to_string(worker.id), std::move(worker));
  const auto workers = static_cast<std::uint32_t>(known.workers.size());
  // Without a discovery the workers have no names; as many publishers stand for them in their order.
  const bool in_order = measured.size() == workers && records_.workers.empty();
  for (std::uint32_t index = 0; index < workers; ++index) {
    const auto& [name, number] = known.workers[index];
    std::optional<signals::EngineSample> sample = whole;
    if (sample) sample = known.parts.part(index, *whole);
    const auto own = in_order ? std::next(measured.begin(), index) : measured.find(name);
    if (own != measured.end()) take_messages(own->second, sample);
    if (const auto record = records.find(name); sample && record != records.end())
      take_cache(record->second, watch_.cache_of(known.number, record->second.id), *sample);
    views.push_back({id + "/" + name,
                     known.phase,
                     known.url,
                     known.since,
                     {number, known.state, known.since, sample},
                     index == 0 ? watch_.messages_of(known.number) : std::nullopt,
                     known.model,
                     index == 0 ? watch_.kv_messages_of(known.number) : std::nullopt});
  }
}

}  // namespace penstock::controller
