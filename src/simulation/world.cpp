#include "simulation/world.h"

#include <algorithm>

#include "core/result.h"
#include "simulation/engine_sample.h"

namespace penstock::simulation {

using signals::ReplicaState;
using signals::Role;

namespace {

constexpr core::Duration kLimitAfterLastArrival = std::chrono::hours{24};  // then the run is given up
constexpr core::Duration kNarrowestPoint = std::chrono::seconds{1};

}  // namespace

core::Duration series_width(const workload::Workload& workload, const RunOptions& options) {
  const core::Duration width = workload.span() / std::max<std::uint32_t>(1, options.series_points);
  return std::max<core::Duration>(kNarrowestPoint, std::chrono::ceil<std::chrono::seconds>(width));
}

World::World(const workload::Workload& workload, decision::Policy& policy, const RunOptions& options)
    : workload_(workload),
      policy_(policy),
      options_(options),
      faults_(core::RandomStream{options.seed}.fork("faults")),
      fleet_(options, core::RandomStream{options.seed}.fork("fleet")),
      recorder_(workload, {options.slo, options.slo_goal, options.slo_segments}, options.model,
                series_width(workload, options)),
      flights_(workload.requests.size()),
      generated_history_(options.pools.size(), {{core::kStart, 0}}),
      point_width_(series_width(workload, options)),
      loop_(policy) {
  for (std::uint32_t i = 0; i < options.pools.size(); ++i) {
    if (options.pools[i].role == Role::kDecode) decode_pool_ = i;
    if (options.pools[i].role != Role::kDecode) entry_pool_ = i;
  }
  if (policy.wants_segments()) {
    segments_.assign(options.pools.size(), signals::SegmentMeter{options.slo.ttft});
    passages_.resize(workload.requests.size());
  }
}

void World::schedule(core::Instant at, Control kind, std::uint32_t subject) {
  control_.push({at, next_serial_++, kind, subject});
}

decision::RunResult World::run() {
  const std::uint32_t replicas = fleet_.add_ready(now_);
  for (std::uint32_t id = 1; id <= replicas; ++id) draw_crash(id);
  if (policy_.interval() != core::Duration::max()) {
    const core::Instant first = core::kStart + policy_.interval();
    schedule(first - options_.faults.telemetry_delay % policy_.interval(), Control::kScrape);
    schedule(first, Control::kTick);
  }
  schedule(options_.details ? core::kStart + point_width_ : core::kNever, Control::kPoint);

  const auto& requests = workload_.requests;
  const core::Instant give_up = core::Instant{workload_.span()} + kLimitAfterLastArrival;
  const std::size_t progress_every = std::max<std::size_t>(1, requests.size() / 200);
  std::size_t next = 0;
  while (next < requests.size() || recorder_.open() > 0) {
    const core::Instant arrival = next < requests.size() ? requests[next].arrival : core::kNever;
    const core::Instant control = control_.top().at;  // never empty: a point of the series is always scheduled
    const core::Instant engine = engines_.next_time();
    now_ = std::min({arrival, control, engine});
    if (now_ > give_up) break;
    if (control == now_) {
      const ControlEvent event = control_.top();
      control_.pop();
      handle(event);
    } else if (arrival == now_) {
      arrive(static_cast<std::uint32_t>(next++));
      if (options_.progress && next % progress_every == 0)
        options_.progress(static_cast<double>(next) / static_cast<double>(requests.size()));
    } else {
      advance_engine(engines_.next_actor());
    }
  }

  for (std::uint32_t request = 0; request < requests.size(); ++request)
    if (recorder_.outcome(request) == Outcome::kOpen) fail(request, entry_pool_, Outcome::kUnfinished);
  if (!options_.details) {
    decision::RunResult counts;
    recorder_.judge(counts, options_.judged_from);
    return counts;
  }
  const core::Instant end = std::max(recorder_.last_end(), core::Instant{workload_.span()});
  recorder_.close_point(end, fleet_.snapshot(now_));

  decision::RunResult result;
  recorder_.summarize(result);
  const FleetTotals totals = fleet_.totals(end);
  result.policy = policy_.name();
  result.router = to_string(options_.router);
  for (const PoolSpec& pool : options_.pools) result.replicas += pool.replicas;
  result.peak_replicas = totals.peak_replicas;
  if (end > core::kStart) result.mean_replicas = core::to_seconds(totals.replica_time) / core::to_seconds(end);
  result.gpu_hours = core::to_hours(totals.gpu_time);
  result.cost = totals.cost;
  result.itl_ms = core::summarize(totals.token_gaps_ms);
  if (totals.prompt_tokens > 0)
    result.prefix_hit_ratio = static_cast<double>(totals.hit_tokens) / static_cast<double>(totals.prompt_tokens);
  result.preemptions = totals.preemptions;
  result.scaling_actions = loop_.changes();
  result.direction_changes = loop_.direction_changes();
  result.decisions = std::move(decisions_);
  result.holds = std::move(holds_);
  result.forecasts = std::move(forecasts_);
  return result;
}

void World::handle(const ControlEvent& event) {
  switch (event.kind) {
    case Control::kReplicaHealthy:
      fleet_.replica(event.subject).healthy = true;
      advance_fleet();
      break;
    case Control::kReplicaReady: replica_ready(event.subject); break;
    case Control::kFleet: advance_fleet(); break;
    case Control::kTransferDone: finish_transfer(event.subject); break;
    case Control::kCrash: crash(event.subject); break;
    case Control::kScrape:
      scrape();
      schedule(now_ + policy_.interval(), Control::kScrape);
      break;
    case Control::kTick:
      tick();
      schedule(now_ + policy_.interval(), Control::kTick);
      break;
    case Control::kPoint:
      recorder_.close_point(now_, fleet_.snapshot(now_));
      schedule(now_ + point_width_, Control::kPoint);
      break;
  }
}

// ---- the life of a request -------------------------------------------------------------------------------------------

engine::EngineRequest World::engine_request(std::uint32_t request, Role role) const {
  const workload::Request& shape = workload_.requests[request];
  engine::EngineRequest engine_request;
  engine_request.request = request;
  engine_request.input_tokens = shape.input_tokens;
  engine_request.output_tokens = role == Role::kPrefill ? 1 : shape.output_tokens;
  engine_request.priority = shape.priority;
  engine_request.block_ids = workload_.blocks_of(shape);
  engine_request.prefilled = role == Role::kDecode;
  return engine_request;
}

std::uint32_t World::blocks_of(std::uint32_t request, const Pool& pool) const {
  const std::uint32_t size = pool.spec.engine.block_tokens;
  return (workload_.requests[request].input_tokens + size - 1) / size;
}

void World::arrive(std::uint32_t request) {
  recorder_.arrived(request);
  if (policy_.memory() > core::Duration{}) {
    const workload::Request& shape = workload_.requests[request];
    seen_.push_back({now_, shape.input_tokens, 0, -1.0F, -1.0F, workload_.blocks_of(shape), recorder_.target(request)});
  }
  fleet_.pools()[entry_pool_].meter.arrived(now_, workload_.requests[request].input_tokens);
  for (const Pool& pool : fleet_.pools()) {
    if (pool.spec.role == Role::kDecode && workload_.requests[request].output_tokens == 1) continue;
    if (!engine::can_fit(pool.spec.engine, engine_request(request, pool.spec.role))) {
      fail(request, entry_pool_, Outcome::kTooLarge);
      return;
    }
  }
  route(request, entry_pool_);
}

void World::route(std::uint32_t request, std::uint32_t pool_index) {
  Pool& pool = fleet_.pools()[pool_index];
  const workload::Request& shape = workload_.requests[request];
  const std::uint32_t full_blocks = shape.input_tokens / pool.spec.engine.block_tokens;
  const auto ids = workload_.blocks_of(shape);
  const auto choice =
      pool.router.choose({shape.input_tokens, ids.first(std::min<std::size_t>(ids.size(), full_blocks))});
  if (!choice) {
    pool.unrouted.push_back(request);
    return;
  }
  Replica& replica = fleet_.replica(pool.replica_at[choice->slot]);
  Flight& flight = flights_[request];
  flight.replica = replica.id;
  const std::uint32_t overlap = choice->overlap_blocks * pool.spec.engine.block_tokens;
  flight.charged_tokens =
      pool.spec.role == Role::kDecode ? 0 : shape.input_tokens - std::min(overlap, shape.input_tokens);
  pool.router.dispatched(choice->slot, flight.charged_tokens, blocks_of(request, pool));
  if (!passages_.empty() && pool.spec.role != Role::kDecode) passages_[request].submitted = now_;
  replica.engine->submit(engine_request(request, pool.spec.role), now_);
  engines_.set(replica.id, replica.engine->next_event());
}

void World::advance_engine(std::uint32_t id) {
  Replica& replica = fleet_.replica(id);
  events_.clear();
  replica.engine->advance(now_, events_);
  auto& cached = replica.engine->cache().events();
  if (!cached.empty()) {
    routing::PrefixIndex& index = fleet_.pools()[replica.pool].router.index();
    for (const engine::CacheEvent& event : cached)
      event.stored ? index.stored(replica.slot, event.key) : index.removed(replica.slot, event.key);
    cached.clear();
  }
  engines_.set(id, replica.engine->next_event());
  for (const engine::EngineEvent& event : events_) {
    switch (event.kind) {
      case engine::EngineEventKind::kFirstToken: on_first_token(event, replica); break;
      case engine::EngineEventKind::kToken: break;  // only where tokens are followed
      case engine::EngineEventKind::kCompleted: on_completed(event, replica); break;
    }
  }
  if (!events_.empty()) advance_if_drained(replica);
}

void World::on_first_token(const engine::EngineEvent& event, Replica& replica) {
  Pool& pool = fleet_.pools()[replica.pool];
  Flight& flight = flights_[event.request];
  pool.router.first_token(replica.slot, flight.charged_tokens);
  flight.charged_tokens = 0;
  flight.cached_tokens = event.cached_tokens;
  if (!passages_.empty()) {
    passages_[event.request].admitted = event.admitted_at;
    passages_[event.request].prefilled = event.at;
  }
  // From a prefill replica it reaches the user only with the KV that the decode replica waits for.
  if (pool.spec.role == Role::kPrefill && workload_.requests[event.request].output_tokens > 1) return;
  answer(event.request, event.cached_tokens);
}

// The first token reaches the user.
void World::answer(std::uint32_t request, std::uint32_t cached_tokens) {
  recorder_.first_token(request, now_, cached_tokens);
  if (!seen_.empty()) seen_[request].ttft_ms = static_cast<float>(recorder_.ttft_ms(request));
  fleet_.pools()[entry_pool_].meter.first_token(now_, recorder_.ttft_ms(request));
  if (!segments_.empty()) segments_[entry_pool_].first_token(now_, traits_of(request), times_of(request));
}

void World::on_completed(const engine::EngineEvent& event, Replica& replica) {
  Pool& pool = fleet_.pools()[replica.pool];
  pool.router.finished(replica.slot, blocks_of(event.request, pool));
  if (pool.spec.role == Role::kPrefill) {
    if (workload_.requests[event.request].output_tokens > 1) {
      start_transfer(event.request, replica);
      return;
    }
    replica.engine->release_held(event.request, now_);
    engines_.set(replica.id, replica.engine->next_event());
  }
  complete(event.request, replica.pool);
}

void World::start_transfer(std::uint32_t request, Replica& source) {
  const double bytes = static_cast<double>(workload_.requests[request].input_tokens) * options_.kv_bytes_per_token;
  const core::Duration time = core::from_seconds(bytes / options_.kv_transfer_bytes_per_s);
  source.link_free_at = std::max(source.link_free_at, now_) + time;
  flights_[request].transfer = static_cast<std::uint32_t>(transfers_.size());
  schedule(source.link_free_at, Control::kTransferDone, flights_[request].transfer);
  transfers_.push_back(request);
}

void World::finish_transfer(std::uint32_t transfer) {
  const std::uint32_t request = transfers_[transfer];
  Flight& flight = flights_[request];
  if (flight.transfer != transfer) return;  // its source crashed
  flight.transfer = kNone;
  Replica& source = fleet_.replica(flight.replica);
  source.engine->release_held(request, now_);
  engines_.set(source.id, source.engine->next_event());
  answer(request, flight.cached_tokens);
  Pool& decode = fleet_.pools()[*decode_pool_];
  decode.meter.arrived(now_, workload_.requests[request].input_tokens);
  route(request, *decode_pool_);
  advance_if_drained(source);
}

void World::complete(std::uint32_t request, std::uint32_t pool) {
  recorder_.completed(request, now_);
  const std::uint32_t output = workload_.requests[request].output_tokens;
  if (!seen_.empty()) {
    seen_[request].output_tokens = output;
    seen_[request].itl_ms = static_cast<float>(recorder_.itl_ms(request));
  }
  for (const std::uint32_t metered : {entry_pool_, pool}) {
    fleet_.pools()[metered].meter.completed(now_, output, recorder_.itl_ms(request));
    if (!segments_.empty())
      segments_[metered].completed(now_, traits_of(request), output, recorder_.ttft_ms(request),
                                   recorder_.itl_ms(request));
    if (pool == entry_pool_) break;
  }
}

void World::fail(std::uint32_t request, std::uint32_t pool, Outcome outcome) {
  recorder_.failed(request, now_, outcome);
  fleet_.pools()[pool].meter.failed(now_);
}

// ---- what the policy sees and does -----------------------------------------------------------------------------------

void World::scrape() {
  for (Pool& pool : fleet_.pools()) {
    for (const std::uint32_t id : pool.replicas) {
      Replica& replica = fleet_.replica(id);
      if (replica.state == ReplicaState::kStarting) continue;
      if (options_.faults.telemetry_loss > 0.0 && faults_.uniform() < options_.faults.telemetry_loss) continue;
      signals::EngineSample sample = sample_of(replica.engine->state(now_), now_);
      if (options_.faults.telemetry_lie > 0.0 && faults_.uniform() < options_.faults.telemetry_lie) {
        sample.queued_requests = 0;
        sample.queued_prefill_tokens = sample.inflight_prefill_tokens = 0;
        sample.scheduled_kv_tokens = sample.queued_kv_tokens = sample.kv_used_tokens = 0;
        sample.oldest_queued_age = core::Duration{};
      }
      replica.on_its_way.push_back(sample);
    }
  }
}

signals::Observation World::observe() {
  signals::Observation observation;
  observation.now = now_;
  while (recent_from_ < seen_.size() && seen_[recent_from_].arrival <= now_ - policy_.memory()) ++recent_from_;
  observation.recent = std::span{seen_}.subspan(recent_from_);
  for (std::uint32_t index = 0; index < fleet_.pools().size(); ++index) {
    Pool& pool = fleet_.pools()[index];
    signals::PoolObservation& seen = observation.pools.emplace_back();
    seen.name = pool.spec.name;
    seen.role = pool.spec.role;
    seen.gpus_per_replica = pool.spec.gpus_per_replica;
    seen.min_replicas = pool.spec.min_replicas;
    seen.max_replicas = pool.spec.max_replicas;
    seen.target_replicas = pool.target;
    seen.start_up = pool.spec.start_up;
    seen.starting = fleet_.count(index, ReplicaState::kStarting);
    seen.ready = fleet_.count(index, ReplicaState::kReady);
    seen.draining = fleet_.count(index, ReplicaState::kDraining);
    for (const std::uint32_t id : pool.replicas) {
      Replica& replica = fleet_.replica(id);
      auto& coming = replica.on_its_way;
      for (; !coming.empty() && coming.front().sampled_at <= now_ - options_.faults.telemetry_delay; coming.pop_front())
        replica.heard = coming.front();
      seen.replicas.push_back({id, replica.state, replica.state_since, replica.heard});
    }
    seen.unrouted_requests = static_cast<std::uint32_t>(pool.unrouted.size());
    seen.arrivals_total = pool.meter.arrivals_total;
    seen.input_tokens_total = pool.meter.input_tokens_total;
    seen.completed_total = pool.meter.completed_total;
    seen.failed_total = pool.meter.failed_total;
    seen.actions_failed_total = pool.actions_failed;
    seen.last_minute = pool.meter.window(now_);
    if (!segments_.empty()) seen.detail = detail_of(index);

    seen.output_tokens_total = fleet_.generated_tokens(index, now_);
    auto& history = generated_history_[index];
    history.emplace_back(now_, seen.output_tokens_total);
    while (history[1].first + seen.last_minute.length <= now_) history.pop_front();
    seen.last_minute.output_tokens = seen.output_tokens_total - history.front().second;
  }
  return observation;
}

void World::tick() {
  decision::Tick tick = loop_.tick(observe(), [this](std::size_t pool, std::uint32_t target) {
    return request_target(static_cast<std::uint32_t>(pool), target);
  });
  for (decision::DecisionRecord& record : tick.records)
    (record.changes() ? decisions_ : holds_).push_back(std::move(record));
  // Ticks are closer to each other than a chart has points.
  if (forecasts_.empty() || now_ - forecasts_.back().at >= point_width_)
    if (auto point = decision::forecast_point(now_, tick.decision)) forecasts_.push_back(*std::move(point));
  advance_fleet();
}

// False: the platform refuses. The policy then finds its target as it was, and one more failed action.
bool World::request_target(std::uint32_t pool, std::uint32_t target) {
  if (options_.faults.refused_actions > 0.0 && faults_.uniform() < options_.faults.refused_actions) {
    ++fleet_.pools()[pool].actions_failed;
    return false;
  }
  fleet_.pools()[pool].target = target;
  return true;
}

}  // namespace penstock::simulation
