#include "simulation/request_path.h"

#include <algorithm>

#include "core/result.h"
#include "ledger/entry.h"

namespace penstock::simulation {

using signals::Role;

namespace {

// As often as the gateway looks at what waits.
constexpr core::Duration kTickInterval = std::chrono::milliseconds{100};

bool is_own_limit(dispatch::RefusalReason reason) {
  return reason == dispatch::RefusalReason::kTokenBudgetExceeded || reason == dispatch::RefusalReason::kTooManyRequests;
}

}  // namespace

RequestPath::RequestPath(const workload::Workload& workload, const RunOptions& options, const Gateway& gateway,
                         dispatch::Dispatcher& dispatcher, Timeline& timeline, Fleet& fleet, Recorder& recorder,
                         core::Duration memory, bool segments)
    : workload_(workload),
      options_(options),
      gateway_(gateway),
      dispatcher_(dispatcher),
      timeline_(timeline),
      fleet_(fleet),
      recorder_(recorder),
      memory_(memory),
      flights_(workload.requests.size()) {
  for (std::uint32_t i = 0; i < options.pools.size(); ++i) {
    if (options.pools[i].role == Role::kDecode) decode_pool_ = i;
    if (options.pools[i].role != Role::kDecode) entry_pool_ = i;
  }
  if (segments) {
    segments_.assign(options.pools.size(), signals::SegmentMeter{options.slo.ttft});
    passages_.resize(workload.requests.size());
  }
}

// ---- arrival and dispatcher -----------------------------------------------------------------------------------------

engine::EngineRequest RequestPath::engine_request(std::uint32_t request, Role role) const {
  const workload::Request& shape = workload_.requests[request];
  const std::uint32_t output = flights_[request].output_tokens;
  engine::EngineRequest made;
  made.request = request;
  made.input_tokens = shape.input_tokens;
  made.output_tokens = role == Role::kPrefill ? 1 : output > 0 ? output : shape.output_tokens;
  made.priority = shape.priority;
  made.block_ids = workload_.blocks_of(shape);
  made.prefilled = role == Role::kDecode;
  return made;
}

bool RequestPath::fits(std::uint32_t request) const {
  for (const Pool& pool : fleet_.pools()) {
    if (pool.spec.role == Role::kDecode && workload_.requests[request].output_tokens == 1) continue;
    if (!engine::can_fit(pool.spec.engine, engine_request(request, pool.spec.role))) return false;
  }
  return true;
}

// A block id names a whole prefix, and so does a routing key: the last block id of those that the key stands for.
std::span<const std::uint64_t> RequestPath::keys_of(const workload::Request& shape) {
  keys_.clear();
  const auto ids = workload_.blocks_of(shape);
  const std::size_t full = std::min<std::size_t>(ids.size(), shape.input_tokens / workload_.block_tokens);
  for (std::size_t last = gateway_.blocks_per_key; last <= full; last += gateway_.blocks_per_key)
    keys_.push_back(ids[last - 1]);
  return keys_;
}

void RequestPath::arrive(std::uint32_t request) {
  const workload::Request& shape = workload_.requests[request];
  recorder_.arrived(request);
  if (!fits(request)) {
    see(request);
    recorder_.failed(request, timeline_.now, Outcome::kTooLarge);
    fleet_.pools()[entry_pool_].meter.failed(timeline_.now);
    return;
  }
  dispatch::RequestInfo info;
  info.model = gateway_.model;
  info.model_number = dispatcher_.model_number(gateway_.model);
  info.tenant = gateway_.tenants[shape.tenant];
  info.traffic_class = gateway_.class_of(shape);
  info.prompt_tokens_given = shape.input_tokens;
  info.stream = true;
  info.keys = keys_of(shape);
  info.affinity = shape.session == workload::kNoSession ? 0 : std::uint64_t{shape.session} + 1;
  info.received_at = timeline_.now;
  const dispatch::ArrivalResult result = dispatcher_.arrive(info, *this, timeline_.now);
  if (!result.refusal || !is_own_limit(result.refusal->reason)) see(request);
  if (result.refusal) return refuse(request);
  flights_[request].ticket = result.ticket;
  if (result.grant) return submit(request, *result.grant);
  waiting_.emplace(result.ticket, request);
  schedule_tick();
}

// The policy sees the request, as the gateway's traffic feed would tell it.
void RequestPath::see(std::uint32_t request) {
  const workload::Request& shape = workload_.requests[request];
  fleet_.pools()[entry_pool_].meter.arrived(timeline_.now, shape.input_tokens);
  if (memory_ <= core::Duration{}) return;
  flights_[request].recent = static_cast<std::uint32_t>(recent_.size());
  recent_.push_back(
      {timeline_.now, shape.input_tokens, 0, -1.0F, -1.0F, workload_.blocks_of(shape), recorder_.target(request)});
}

void RequestPath::submit(std::uint32_t request, const dispatch::Grant& grant) {
  Flight& flight = flights_[request];
  Replica& replica = fleet_.replica(static_cast<std::uint32_t>(grant.replica));
  const Role role = fleet_.pools()[replica.pool].spec.role;
  flight.replica = replica.id;
  if (role != Role::kDecode) {
    const std::uint32_t wanted = workload_.requests[request].output_tokens;
    flight.output_tokens = std::min(wanted, grant.max_tokens.value_or(wanted));
    if (!passages_.empty()) passages_[request].submitted = timeline_.now;
  }
  replica.engine->submit(engine_request(request, role), timeline_.now);
  timeline_.engines.set(replica.id, replica.engine->next_event());
}

void RequestPath::deliver(dispatch::Ticket ticket, const dispatch::Grant& grant) {
  const auto found = waiting_.find(ticket);
  const std::uint32_t request = found->second;
  waiting_.erase(found);
  waits_ms_.add(core::to_milliseconds(timeline_.now - workload_.requests[request].arrival));
  submit(request, grant);
}

void RequestPath::deliver(dispatch::Ticket ticket, const dispatch::Refusal&) {
  const auto found = waiting_.find(ticket);
  const std::uint32_t request = found->second;
  waiting_.erase(found);
  refuse(request);
}

void RequestPath::refuse(std::uint32_t request) {
  recorder_.failed(request, timeline_.now, Outcome::kRefused);
  fleet_.pools()[entry_pool_].meter.failed(timeline_.now);
}

void RequestPath::schedule_tick() {
  if (tick_pending_) return;
  const core::Instant wake = waiting_.empty() ? dispatcher_.next_wake(timeline_.now) : timeline_.now;
  if (wake == core::kNever) return;
  tick_pending_ = true;
  timeline_.schedule(std::max(wake, timeline_.now + kTickInterval), EventKind::kDispatcher);
}

void RequestPath::tick() {
  tick_pending_ = false;
  dispatcher_.tick(timeline_.now);
  schedule_tick();
}

// ---- engines --------------------------------------------------------------------------------------------------------

bool RequestPath::advance_engine(std::uint32_t id) {
  Replica& replica = fleet_.replica(id);
  events_.clear();
  replica.engine->advance(timeline_.now, events_);
  publish_cache(replica);
  timeline_.engines.set(id, replica.engine->next_event());
  for (const engine::EngineEvent& event : events_) {
    switch (event.kind) {
      case engine::EngineEventKind::kFirstToken: on_first_token(event, replica); break;
      case engine::EngineEventKind::kToken: break;  // only where tokens are followed
      case engine::EngineEventKind::kCompleted: on_completed(event, replica); break;
    }
  }
  return !events_.empty();
}

void RequestPath::publish_cache(Replica& replica) {
  auto& events = replica.engine->cache().events();
  for (std::size_t i = 0; i < events.size();) {
    const bool stored = events[i].stored;
    keys_.clear();
    for (; i < events.size() && events[i].stored == stored; ++i) keys_.push_back(events[i].key);
    dispatcher_.kv_event(replica.slot, stored ? dispatch::KvChange::kStored : dispatch::KvChange::kRemoved, keys_);
  }
  events.clear();
}

void RequestPath::on_first_token(const engine::EngineEvent& event, const Replica& replica) {
  Flight& flight = flights_[event.request];
  flight.cached_tokens = event.cached_tokens;
  if (!passages_.empty()) {
    passages_[event.request].admitted = event.admitted_at;
    passages_[event.request].prefilled = event.at;
  }
  dispatcher_.attempt_ended(flight.ticket, dispatch::Attempt::kAnswered, timeline_.now);
  // From a prefill replica it reaches the user only with the KV that the decode replica waits for.
  if (fleet_.pools()[replica.pool].spec.role == Role::kPrefill && flight.output_tokens > 1) return;
  answer(event.request);
}

// The first token reaches the user.
void RequestPath::answer(std::uint32_t request) {
  const Flight& flight = flights_[request];
  dispatcher_.answered(flight.ticket, timeline_.now);
  recorder_.first_token(request, timeline_.now, flight.cached_tokens);
  const double ttft_ms = recorder_.ttft_ms(request);
  if (flight.recent != kNone) recent_[flight.recent].ttft_ms = static_cast<float>(ttft_ms);
  fleet_.pools()[entry_pool_].meter.first_token(timeline_.now, ttft_ms);
  if (!segments_.empty()) segments_[entry_pool_].first_token(timeline_.now, traits_of(request), times_of(request));
}

void RequestPath::on_completed(const engine::EngineEvent& event, Replica& replica) {
  if (fleet_.pools()[replica.pool].spec.role == Role::kPrefill) {
    if (flights_[event.request].output_tokens > 1) {
      dispatcher_.prefilled(flights_[event.request].ticket, timeline_.now);
      start_transfer(event.request, replica);
      return;
    }
    replica.engine->release_held(event.request, timeline_.now);
    timeline_.engines.set(replica.id, replica.engine->next_event());
  }
  complete(event.request, replica.pool);
}

void RequestPath::start_transfer(std::uint32_t request, Replica& source) {
  const double bytes = static_cast<double>(workload_.requests[request].input_tokens) * options_.kv_bytes_per_token;
  const core::Duration time = core::from_seconds(bytes / options_.kv_transfer_bytes_per_s);
  source.link_free_at = std::max(source.link_free_at, timeline_.now) + time;
  flights_[request].transfer = static_cast<std::uint32_t>(transfers_.size());
  timeline_.schedule(source.link_free_at, EventKind::kTransferDone, flights_[request].transfer);
  transfers_.push_back(request);
}

std::optional<std::uint32_t> RequestPath::finish_transfer(std::uint32_t transfer) {
  const std::uint32_t request = transfers_[transfer];
  Flight& flight = flights_[request];
  if (flight.transfer != transfer) return std::nullopt;  // its source crashed
  flight.transfer = kNone;
  Replica& source = fleet_.replica(flight.replica);
  source.engine->release_held(request, timeline_.now);
  timeline_.engines.set(source.id, source.engine->next_event());
  answer(request);
  fleet_.pools()[*decode_pool_].meter.arrived(timeline_.now, workload_.requests[request].input_tokens);
  decode(request);
  return source.id;
}

void RequestPath::decode(std::uint32_t request) {
  if (const auto grant = dispatcher_.route_decode(flights_[request].ticket, timeline_.now))
    submit(request, *grant);
  else
    undecoded_.push_back(request);
}

void RequestPath::replica_admitted() {
  std::vector<std::uint32_t> waiting;
  waiting.swap(undecoded_);
  for (const std::uint32_t request : waiting) decode(request);
  waiting.clear();
  waiting.swap(lost_);
  for (const std::uint32_t request : waiting) try_again(request);
}

// ---- the end --------------------------------------------------------------------------------------------------------

void RequestPath::complete(std::uint32_t request, std::uint32_t pool) {
  const Flight& flight = flights_[request];
  const std::uint32_t output = flight.output_tokens;
  recorder_.completed(request, timeline_.now, output);
  delivered_tokens_ += output;
  if (flight.recent != kNone) {
    recent_[flight.recent].output_tokens = output;
    recent_[flight.recent].itl_ms = static_cast<float>(recorder_.itl_ms(request));
  }
  for (const std::uint32_t metered : {entry_pool_, pool}) {
    fleet_.pools()[metered].meter.completed(timeline_.now, output, recorder_.itl_ms(request));
    if (!segments_.empty())
      segments_[metered].completed(timeline_.now, traits_of(request), output, recorder_.ttft_ms(request),
                                   recorder_.itl_ms(request));
    if (pool == entry_pool_) break;
  }
  dispatch::RequestOutcome outcome;
  outcome.usage = {workload_.requests[request].input_tokens, output, flight.cached_tokens, true};
  outcome.last_token_at = timeline_.now;
  dispatcher_.ended(flight.ticket, outcome, timeline_.now);
}

void RequestPath::fail(std::uint32_t request, std::uint32_t pool, Outcome outcome, std::uint32_t output_tokens) {
  recorder_.failed(request, timeline_.now, outcome);
  fleet_.pools()[pool].meter.failed(timeline_.now);
  delivered_tokens_ += output_tokens;
  dispatch::RequestOutcome ended;
  ended.outcome = ledger::Outcome::kFailed;
  ended.output_events = output_tokens;
  ended.last_token_at = timeline_.now;
  dispatcher_.ended(flights_[request].ticket, ended, timeline_.now);
}

void RequestPath::lose(std::span<const engine::OpenRequest> open, std::uint32_t pool) {
  for (const engine::OpenRequest& lost : open) {
    Flight& flight = flights_[lost.request];
    flight.transfer = kNone;
    if (recorder_.has_first_token(lost.request)) {
      fail(lost.request, pool, Outcome::kReplicaCrashed, lost.generated_tokens);
      continue;
    }
    dispatcher_.attempt_ended(flight.ticket, dispatch::Attempt::kFaulted, timeline_.now);
    try_again(lost.request);
  }
  schedule_tick();
}

// Where there are limits, a request that no other replica may take fails, as at the gateway. A peer's router has none.
void RequestPath::try_again(std::uint32_t request) {
  if (const auto grant = dispatcher_.route_again(flights_[request].ticket, timeline_.now))
    submit(request, *grant);
  else if (gateway_.classes)
    fail(request, entry_pool_, Outcome::kReplicaCrashed, 0);
  else
    lost_.push_back(request);
}

void RequestPath::give_up_open() {
  for (std::uint32_t request = 0; request < flights_.size(); ++request) {
    if (recorder_.outcome(request) != Outcome::kOpen) continue;
    if (flights_[request].ticket == 0) {  // it had not arrived
      recorder_.failed(request, timeline_.now, Outcome::kUnfinished);
      continue;
    }
    waiting_.erase(flights_[request].ticket);
    fail(request, entry_pool_, Outcome::kUnfinished, 0);
  }
}

// ---- what the policy sees -------------------------------------------------------------------------------------------

std::span<const signals::RecentRequest> RequestPath::recent() {
  while (recent_from_ < recent_.size() && recent_[recent_from_].arrival <= timeline_.now - memory_) ++recent_from_;
  return std::span{recent_}.subspan(recent_from_);
}

std::uint32_t RequestPath::unrouted(std::uint32_t pool) const {
  if (pool == decode_pool_) return static_cast<std::uint32_t>(undecoded_.size());
  const auto lost = static_cast<std::uint32_t>(lost_.size());
  return lost + (waiting_.empty() ? 0 : dispatcher_.waiting_for_room(0).requests);
}

signals::RequestTraits RequestPath::traits_of(std::uint32_t request) const {
  const workload::Request& shape = workload_.requests[request];
  return {shape.input_tokens, shape.tenant, shape.traffic_class == workload::TrafficClass::kBatch,
          recorder_.cache_hit(request)};
}

// Of a request whose first token is out now.
signals::FirstTokenTimes RequestPath::times_of(std::uint32_t request) const {
  const Passage& passage = passages_[request];
  signals::FirstTokenTimes times;
  times.replica_wait = passage.submitted - workload_.requests[request].arrival;
  times.queue = passage.admitted - passage.submitted;
  times.prefill = passage.prefilled - passage.admitted;
  times.transfer = timeline_.now - passage.prefilled;
  return times;
}

signals::PoolDetail RequestPath::detail_of(std::uint32_t pool) const {
  signals::PoolDetail detail = segments_[pool].read(timeline_.now, workload_.tenants);
  if (pool == entry_pool_ && !waiting_.empty()) {
    const core::Instant oldest = dispatcher_.waiting_for_room(0).oldest;
    if (oldest != core::kNever) detail.oldest_unrouted_age = timeline_.now - oldest;
  }
  if (pool == decode_pool_ && !undecoded_.empty())
    detail.oldest_unrouted_age = timeline_.now - passages_[undecoded_.front()].prefilled;
  return detail;
}

// ---- results --------------------------------------------------------------------------------------------------------

void RequestPath::summarize(decision::RunResult& result) const {
  const dispatch::Overview seen = dispatcher_.overview(timeline_.now);
  result.retried = seen.retried_total;
  result.clamped = seen.clamped_total;
  result.waited = waits_ms_.count();
  result.queue_wait_ms = core::summarize(waits_ms_);
  for (const auto& [reason, count] : seen.refusals) result.failures.push_back({to_string(reason), count});
  if (!gateway_.classes) return;
  const double seconds = result.duration_s;
  for (const auto& [key, sums] : seen.sums) {
    decision::TenantResult& tenant = result.tenants.emplace_back();
    tenant.name = key.first;
    tenant.requests = sums.closed + sums.refused;
    tenant.completed = sums.completed;
    tenant.refused = sums.refused;
    tenant.prompt_tokens = sums.prompt_tokens;
    tenant.cached_tokens = sums.cached_tokens;
    tenant.output_tokens = sums.output_tokens;
    tenant.token_cost = sums.cost;
    const auto configured = std::find_if(gateway_.options.tenants.begin(), gateway_.options.tenants.end(),
                                         [&](const dispatch::Tenant& each) { return each.name == tenant.name; });
    if (configured == gateway_.options.tenants.end() || !configured->budget.limited()) continue;
    const admission::BudgetLimits& budget = configured->budget;
    const double granted = budget.capacity() + budget.tokens_per_minute * seconds / 60.0;
    tenant.budget_share = static_cast<double>(sums.prompt_tokens + sums.output_tokens) / granted;
  }
}

std::string RequestPath::final_violation() const {
  if (dispatcher_.open_requests() > 0) return "requests are open at the dispatcher after every request has ended";
  if (!waiting_.empty()) return "requests wait after every request has ended";
  std::uint64_t tokens = 0, completed = 0;
  for (const auto& [key, sums] : dispatcher_.balance().sums()) {
    tokens += sums.output_tokens;
    completed += sums.completed;
  }
  if (completed != recorder_.completed())
    return "the ledger has " + std::to_string(completed) + " completed requests, and users received " +
           std::to_string(recorder_.completed());
  if (tokens != delivered_tokens_)
    return "the ledger has " + std::to_string(tokens) + " output tokens, and users received " +
           std::to_string(delivered_tokens_);
  return {};
}

}  // namespace penstock::simulation
