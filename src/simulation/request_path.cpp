#include "simulation/request_path.h"

#include <algorithm>
#include <utility>

#include "core/result.h"
#include "simulation/engine_answer.h"
#include "workload/shared_blocks.h"

namespace penstock::simulation {

using signals::Role;

namespace {

// As often as the gateway looks at what waits.
constexpr core::Duration kTickInterval = std::chrono::milliseconds{100};

// A request whose client sends it again after a restart of the gateway may find its own blocks.
std::vector<std::uint32_t> named_blocks(const workload::Workload& workload, const RunOptions& options) {
  if (options.faults.events.empty()) {
    std::vector<std::span<const std::uint32_t>> cached;
    for (const CachedPrompt& each : options.cached) cached.push_back(each.prompt.block_ids);
    return workload::shared_block_counts(workload, cached);
  }
  std::vector<std::uint32_t> counts;
  counts.reserve(workload.requests.size());
  for (const workload::Request& request : workload.requests) counts.push_back(request.block_count);
  return counts;
}

// What decides about its pool beside the request itself. A client states the length of an answer that not every pool
// could hold.
void describe_for_pools(const workload::Request& shape, const Fleet& fleet, const RunOptions& options,
                        dispatch::RequestInfo& info) {
  if (fleet.has_pool_rules() && !fleet.fits_all(shape)) info.max_tokens = shape.output_tokens;
  if (options.pools_by_priority) info.pool = static_cast<std::uint32_t>(std::max<std::int8_t>(0, shape.priority));
}

// All but the keys of its prompt.
dispatch::RequestInfo info_of(const workload::Request& shape, const Gateway& gateway, const Fleet& fleet,
                              const RunOptions& options, core::Instant now) {
  dispatch::RequestInfo info;
  info.model = gateway.model;
  info.tenant = gateway.tenants[shape.tenant];
  info.traffic_class = gateway.class_of(shape);
  info.prompt_tokens_given = shape.input_tokens;
  info.may_truncate_prompt = true;
  info.stream = true;
  info.affinity = shape.session == workload::kNoSession ? 0 : std::uint64_t{shape.session} + 1;
  info.received_at = now;
  info.known_output_tokens = shape.output_tokens;
  info.recorded_reservation = shape.reserved_tokens;
  info.expected_output_tokens = shape.expected_output_tokens;
  describe_for_pools(shape, fleet, options, info);
  return info;
}

// Nothing is known of what is left of the prompt, so that no other one shares its blocks.
void drop_oldest(dispatch::RequestInfo& info, const core::PromptExcess& excess, std::uint32_t key_tokens) {
  info.untruncated_prompt_tokens = info.prompt_tokens_given;
  info.prompt_tokens_given -= static_cast<std::uint32_t>(excess.tokens);
  info.keys = {};
  info.unshared_keys = info.prompt_tokens_given / key_tokens;
  info.may_truncate_prompt = false;
}

}  // namespace

RequestPath::RequestPath(const workload::Workload& workload, const RunOptions& options, const Gateway& gateway,
                         dispatch::Dispatcher& dispatcher, Timeline& timeline, Fleet& fleet, Recorder& recorder,
                         TrafficView& view)
    : workload_(workload),
      options_(options),
      gateway_(gateway),
      dispatcher_(dispatcher),
      timeline_(timeline),
      fleet_(fleet),
      recorder_(recorder),
      view_(view),
      cache_feed_(options.faults.cache_event_delay, dispatcher, timeline, fleet),
      clients_(core::RandomStream{options.seed}.fork("clients")),
      shared_blocks_(named_blocks(workload, options)),
      flights_(workload.requests.size()) {}

// ---- arrival and dispatcher -----------------------------------------------------------------------------------------

engine::EngineRequest RequestPath::engine_request(std::uint32_t request, Role role) const {
  const workload::Request& shape = workload_.requests[request];
  const std::uint32_t output = flights_[request].output_tokens;
  engine::EngineRequest made;
  made.request = request;
  made.input_tokens = flights_[request].input_tokens;
  made.output_tokens = role == Role::kPrefill ? 1 : output > 0 ? output : shape.output_tokens;
  made.priority = shape.priority;
  if (made.input_tokens == shape.input_tokens)
    made.block_ids = workload_.blocks_of(shape).first(shared_blocks_[request]);
  made.prefilled = role == Role::kDecode || request < options_.running;
  return made;
}

void RequestPath::arrive(std::uint32_t request) {
  recorder_.arrived(request);
  if (options_.faults.cancelled_requests > 0.0 && clients_.uniform() < options_.faults.cancelled_requests) {
    const double after_s = clients_.exponential(core::to_seconds(options_.faults.cancelled_after));
    timeline_.schedule(timeline_.now + core::from_seconds(after_s), EventKind::kClientLeaves, request);
  }
  if (timeline_.now < gateway_back_at_) return unsent_.push_back(request);
  send(request);
}

void RequestPath::send(std::uint32_t request) {
  const workload::Request& shape = workload_.requests[request];
  if (!fleet_.can_serve(shape)) {
    view_.arrived(request);
    recorder_.failed(request, timeline_.now, Outcome::kTooLarge);
    return view_.failed(request, view_.entry_pool(request));
  }
  dispatch::RequestInfo info = info_of(shape, gateway_, fleet_, options_, timeline_.now);
  info.model_number = dispatcher_.model_number(gateway_.model);
  info.prefilled = request < options_.running;
  info.unshared_keys = gateway_.keys_of(workload_, shape, shared_blocks_[request], keys_);
  info.keys = keys_;
  ++totals_.sent;
  dispatch::ArrivalResult result = dispatcher_.arrive(info, *this, timeline_.now);
  if (result.prompt_excess) {
    drop_oldest(info, *result.prompt_excess, workload_.block_tokens * gateway_.blocks_per_key);
    result = dispatcher_.arrive(info, *this, timeline_.now);
  }
  flights_[request].input_tokens = info.prompt_tokens_given;
  view_.received(request, result);
  if (result.refusal) return refuse(request);
  flights_[request].ticket = result.ticket;
  if (const core::Duration budget = gateway_.time_budget_of(shape); budget > core::Duration{})
    timeline_.schedule(timeline_.now + budget, EventKind::kOutOfTime, request);
  if (result.grant) return submit(request, *result.grant);
  waiting_.emplace(result.ticket, request);
  schedule_tick();
}

void RequestPath::submit(std::uint32_t request, const dispatch::Grant& grant) {
  Flight& flight = flights_[request];
  Replica& replica = fleet_.replica(static_cast<std::uint32_t>(grant.replica));
  const Role role = fleet_.pools()[replica.pool].spec.role;
  flight.replica = replica.id;
  ++flight.attempts;
  if (role != Role::kDecode) {
    const std::uint32_t wanted = workload_.requests[request].output_tokens;
    flight.output_tokens = std::min(wanted, grant.max_tokens.value_or(wanted));
    view_.submitted(request);
    start_attempt_timer(request);
  }
  const bool decodes_already = role != Role::kDecode && request < options_.running;
  totals_.computed_tokens += decodes_already ? 1 : 0;  // Its first token, before the run.
  if (decodes_already) answer(request);
  if (decodes_already && role == Role::kPrefill) return decode(request);
  replica.engine->submit(engine_request(request, role), timeline_.now);
  timeline_.engines.set(replica.id, replica.engine->next_event());
}

void RequestPath::deliver(dispatch::Ticket ticket, const dispatch::Grant& grant) {
  const std::uint32_t request = waiting_.extract(ticket).mapped();
  if (!view_.sees(request)) view_.arrived(request);
  const core::Instant arrival = workload_.requests[request].arrival;
  const bool counts = view_.granted(request, grant.due_at.value_or(timeline_.now));
  if (counts && arrival >= options_.judged_from) waits_ms_.add(core::to_milliseconds(timeline_.now - arrival));
  submit(request, grant);
}

void RequestPath::deliver(dispatch::Ticket ticket, const dispatch::Refusal& refusal) {
  const std::uint32_t request = waiting_.extract(ticket).mapped();
  if (refusal.is_work && !view_.sees(request)) view_.arrived(request);
  refuse(request);
}

void RequestPath::refuse(std::uint32_t request) {
  recorder_.failed(request, timeline_.now, Outcome::kRefused);
  view_.failed(request, view_.entry_pool(request));
}

void RequestPath::schedule_tick() {
  const core::Instant wake = waiting_.empty() ? dispatcher_.next_wake(timeline_.now) : timeline_.now;
  const core::Instant at = std::max(wake, timeline_.now + kTickInterval);
  if (wake == core::kNever || at >= next_tick_) return;
  next_tick_ = at;
  timeline_.schedule(at, EventKind::kDispatcher);
}

void RequestPath::tick() {
  if (timeline_.now != next_tick_) return;  // An earlier tick replaced it.
  next_tick_ = core::kNever;
  dispatcher_.tick(timeline_.now);
  schedule_tick();
}

// ---- engines --------------------------------------------------------------------------------------------------------

void RequestPath::advance_engine(std::uint32_t id) {
  Replica& replica = fleet_.replica(id);
  events_.clear();
  replica.engine->advance(timeline_.now, events_);
  cache_feed_.publish(replica, timeline_.now >= gateway_back_at_);
  timeline_.engines.set(id, replica.engine->next_event());
  for (const engine::EngineEvent& event : events_) {
    if (event.kind == engine::EngineEventKind::kFirstToken) on_first_token(event, replica);
    if (event.kind == engine::EngineEventKind::kCompleted) on_completed(event, replica);
  }
  for (const std::uint32_t request : std::exchange(truncated_, {}))
    fail(request, replica.pool, Outcome::kTruncated, withdraw(request));
}

void RequestPath::on_first_token(const engine::EngineEvent& event, const Replica& replica) {
  Flight& flight = flights_[event.request];
  flight.cached_tokens = event.cached_tokens;
  view_.prefilled(event.request, event);
  // From a prefill replica it reaches the user only with the KV that the decode replica waits for.
  const PoolSpec& pool = fleet_.pools()[replica.pool].spec;
  if (pool.role == Role::kPrefill && flight.output_tokens > 1) return void(flight.undelivered = 1);
  answer(event.request);
  if (flight.output_tokens > 1 && truncates(options_.faults, replica.id, pool.name, timeline_.now))
    truncated_.push_back(event.request);
}

// The first token reaches the user.
void RequestPath::answer(std::uint32_t request) {
  Flight& flight = flights_[request];
  flight.undelivered = 0;
  dispatcher_.answered(flight.ticket, timeline_.now);
  recorder_.first_token(request, timeline_.now, flight.cached_tokens);
  ++totals_.first_tokens;
  view_.first_token(request);
}

void RequestPath::on_completed(const engine::EngineEvent& event, Replica& replica) {
  if (fleet_.pools()[replica.pool].spec.role == Role::kPrefill) {
    if (flights_[event.request].output_tokens > 1) return start_transfer(event.request, replica);
    replica.engine->release_held(event.request, timeline_.now);
    timeline_.engines.set(replica.id, replica.engine->next_event());
  }
  complete(event.request, replica.pool);
}

void RequestPath::start_transfer(std::uint32_t request, Replica& source) {
  dispatcher_.attempt_ended(flights_[request].ticket, dispatch::Attempt::kAnswered, timeline_.now);
  dispatcher_.prefilled(flights_[request].ticket, timeline_.now);
  const double bytes = static_cast<double>(flights_[request].input_tokens) * options_.kv_bytes_per_token;
  const core::Duration time = core::from_seconds(bytes / options_.kv_transfer_bytes_per_s);
  source.link_free_at = std::max(source.link_free_at, timeline_.now) + time;
  flights_[request].transfer = static_cast<std::uint32_t>(transfers_.size());
  timeline_.schedule(source.link_free_at, EventKind::kTransferDone, flights_[request].transfer);
  transfers_.push_back(request);
}

std::optional<std::uint32_t> RequestPath::finish_transfer(std::uint32_t transfer) {
  const std::uint32_t request = transfers_[transfer];
  Flight& flight = flights_[request];
  if (flight.transfer != transfer) return std::nullopt;  // Its source crashed, or the request has ended.
  flight.transfer = kNone;
  Replica& source = fleet_.replica(flight.replica);
  source.engine->release_held(request, timeline_.now);
  timeline_.engines.set(source.id, source.engine->next_event());
  answer(request);
  view_.transferred(request);
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
  for (const std::uint32_t request : std::exchange(undecoded_, {})) decode(request);
  for (const std::uint32_t request : std::exchange(lost_, {})) try_again(request, Outcome::kReplicaCrashed);
}

// ---- time limits, and clients that leave ----------------------------------------------------------------------------

void RequestPath::start_attempt_timer(std::uint32_t request) {
  const core::Duration limit = gateway_.options.first_byte_timeout;
  if (limit == core::Duration{}) return;
  attempt_timers_.push_back({timeline_.now + limit, request, flights_[request].attempts});
  schedule_attempt_timer();
}

void RequestPath::schedule_attempt_timer() {
  while (!attempt_timers_.empty() && is_settled(attempt_timers_.front())) attempt_timers_.pop_front();
  if (attempt_timer_pending_ || attempt_timers_.empty()) return;
  attempt_timer_pending_ = true;
  timeline_.schedule(attempt_timers_.front().at, EventKind::kFirstByteTimeout);
}

bool RequestPath::is_settled(const AttemptTimer& timer) const {
  const Flight& flight = flights_[timer.request];
  return flight.attempts != timer.attempt || flight.transfer != kNone || !is_open(timer.request) ||
         recorder_.has_first_token(timer.request);
}

void RequestPath::end_late_attempts() {
  std::vector<std::uint32_t> late;
  for (; !attempt_timers_.empty() && attempt_timers_.front().at <= timeline_.now; attempt_timers_.pop_front())
    if (!is_settled(attempt_timers_.front())) late.push_back(attempt_timers_.front().request);
  for (const std::uint32_t request : late) {
    withdraw(request);
    try_again(request, Outcome::kReplicaTimeout);
  }
  schedule_tick();
  attempt_timer_pending_ = false;
  schedule_attempt_timer();
}

void RequestPath::visit_silent(Replica& replica, const SilentVisit& visit) {
  for (const engine::OpenRequest& open : replica.engine->open_requests(timeline_.now)) {
    const std::uint32_t request = open.request;
    if (recorder_.has_first_token(request)) {
      if (visit.cuts) fail(request, replica.pool, Outcome::kReplicaTimeout, withdraw(request));
    } else if (visit.tries_again && flights_[request].transfer == kNone &&
               dispatcher_.may_retry(flights_[request].ticket, timeline_.now)) {
      withdraw(request);
      try_again(request, Outcome::kReplicaTimeout);
    }
  }
  schedule_tick();
}

// A request that was sent again after a restart has a later limit.
void RequestPath::out_of_time(std::uint32_t request) {
  if (timeline_.now - gateway_.time_budget_of(workload_.requests[request]) >= gateway_back_at_)
    leave(request, Outcome::kTimedOut);
}

void RequestPath::leave(std::uint32_t request, Outcome outcome) {
  if (!is_open(request)) return;
  waiting_.erase(flights_[request].ticket);
  std::erase(undecoded_, request);
  std::erase(lost_, request);
  fail(request, view_.entry_pool(request), outcome, withdraw(request));
  schedule_tick();
}

std::uint32_t RequestPath::withdraw(std::uint32_t request) {
  Flight& flight = flights_[request];
  flight.transfer = kNone;
  std::uint32_t generated = 0;
  if (flight.replica != kNone && fleet_.replica(flight.replica).alive()) {
    Replica& replica = fleet_.replica(flight.replica);
    generated = replica.engine->cancel(request, timeline_.now).value_or(0);
    ++totals_.withdrawn;
    timeline_.engines.set(replica.id, replica.engine->next_event());
  }
  if (recorder_.has_first_token(request)) return std::max(1U, generated);
  totals_.discarded_tokens += std::max(generated, std::exchange(flight.undelivered, 0));
  return 0;
}

// ---- restarts of the gateway ----------------------------------------------------------------------------------------

void RequestPath::gateway_stopped(core::Instant until) {
  gateway_back_at_ = std::max(gateway_back_at_, until);
  for (std::uint32_t request = 0; request < flights_.size(); ++request) {
    if (flights_[request].ticket == 0 || !is_open(request)) continue;
    totals_.lost_tokens += withdraw(request);
    flights_[request] = {0, kNone, kNone, 0, 0, flights_[request].attempts + 1};
    view_.forget(request);
    if (recorder_.has_first_token(request))
      recorder_.failed(request, timeline_.now, Outcome::kGatewayRestarted);
    else
      unsent_.push_back(request);
  }
  totals_.forgotten += waiting_.size();
  dispatcher_.lose_open();
  before_ = before_.with(dispatcher_, timeline_.now);
  waiting_.clear();
  undecoded_.clear();
  lost_.clear();
  attempt_timers_.clear();
  cache_feed_.clear();
}

void RequestPath::gateway_started() {
  if (timeline_.now < gateway_back_at_) return;  // It stopped once more.
  for (const std::uint32_t request : std::exchange(unsent_, {}))
    if (is_open(request)) send(request);
}

// ---- the end --------------------------------------------------------------------------------------------------------

void RequestPath::complete(std::uint32_t request, std::uint32_t pool) {
  const Flight& flight = flights_[request];
  const std::uint32_t output = flight.output_tokens;
  recorder_.completed(request, timeline_.now, output);
  totals_.received_tokens += output;
  totals_.completed_prompt_tokens += flight.input_tokens;
  view_.completed(request, pool, output);
  const std::string& replicas = fleet_.pools()[fleet_.replica(flight.replica).pool].spec.name;
  const dispatch::RequestOutcome outcome =
      completed_answer({flight.input_tokens, output, flight.cached_tokens, true},
                       {options_.faults, options_.seed, flight.replica, replicas, timeline_.now});
  dispatcher_.ended(flight.ticket, outcome, timeline_.now);
}

void RequestPath::fail(std::uint32_t request, std::uint32_t pool, Outcome outcome, std::uint32_t output_tokens) {
  recorder_.failed(request, timeline_.now, outcome);
  const dispatch::RequestOutcome ended = cut_answer(outcome, output_tokens, timeline_.now);
  // As in the gateway, clients that leave and time budgets are no failures of the fleet.
  const bool left = ended.outcome == ledger::Outcome::kCancelled || ended.outcome == ledger::Outcome::kTimedOut;
  if (!left) view_.failed(request, pool);
  view_.forget(request);
  if (flights_[request].ticket == 0) return;  // It is not at the gateway.
  totals_.received_tokens += output_tokens;
  dispatcher_.ended(flights_[request].ticket, ended, timeline_.now);
}

void RequestPath::lose(std::span<const engine::OpenRequest> open, std::uint32_t pool) {
  for (const engine::OpenRequest& lost : open) {
    Flight& flight = flights_[lost.request];
    flight.transfer = kNone;
    if (recorder_.has_first_token(lost.request)) {
      fail(lost.request, pool, Outcome::kReplicaCrashed, std::max(1U, lost.generated_tokens));
      continue;
    }
    totals_.discarded_tokens += std::max(lost.generated_tokens, std::exchange(flight.undelivered, 0));
    try_again(lost.request, Outcome::kReplicaCrashed);
  }
  schedule_tick();
}

// Where there are limits, a request that no other replica may take fails, as at the gateway. A peer's router has none.
void RequestPath::try_again(std::uint32_t request, Outcome otherwise) {
  dispatcher_.attempt_ended(flights_[request].ticket, dispatch::Attempt::kFaulted, timeline_.now);
  if (const auto grant = dispatcher_.route_again(flights_[request].ticket, timeline_.now))
    submit(request, *grant);
  else if (gateway_.limits)
    fail(request, view_.entry_pool(request), otherwise, 0);
  else
    lost_.push_back(request);
}

void RequestPath::give_up_open() {
  for (std::uint32_t request = 0; request < recorder_.requests(); ++request) {
    if (!recorder_.has_arrived(request) || !is_open(request)) continue;
    waiting_.erase(flights_[request].ticket);
    totals_.discarded_tokens += withdraw(request);
    fail(request, view_.entry_pool(request), Outcome::kUnfinished, 0);
  }
}

// ---- what the policy sees -------------------------------------------------------------------------------------------

std::uint32_t RequestPath::unrouted(std::uint32_t pool) const {
  if (pool == view_.decode_pool()) return static_cast<std::uint32_t>(undecoded_.size());
  return view_.count_at(pool, lost_) + dispatcher_.waiting_for_room(0, fleet_.rule_of(pool)).requests;
}

std::optional<core::Instant> RequestPath::oldest_unrouted(std::uint32_t pool) const {
  if (pool == view_.decode_pool())
    return undecoded_.empty() ? std::nullopt : std::optional{view_.prefilled_at(undecoded_.front())};
  if (waiting_.empty()) return std::nullopt;
  const core::Instant oldest = dispatcher_.waiting_for_room(0, fleet_.rule_of(pool)).oldest;
  return oldest == core::kNever ? std::nullopt : std::optional{oldest};
}

// ---- results --------------------------------------------------------------------------------------------------------

void RequestPath::summarize(decision::RunResult& result, const GatewayTotals& unscored) const {
  result.waited = waits_ms_.count();
  result.queue_wait_ms = core::summarize(waits_ms_);
  gateway_totals().since(unscored).summarize(gateway_, result);
}

std::string RequestPath::final_violation(const LedgerMemory* ledger) const {
  if (dispatcher_.open_requests() > 0) return "requests are open at the dispatcher after every request has ended";
  if (!waiting_.empty()) return "requests wait after every request has ended";
  ClientTotals clients = totals_;
  clients.completed = recorder_.count(Outcome::kCompleted);
  clients.refused = recorder_.count(Outcome::kRefused);
  clients.visible = view_.arrivals() - recorder_.count(Outcome::kTooLarge);
  clients.computed_tokens += fleet_.snapshot(timeline_.now, 0).generated_tokens;
  clients.miscounts = has_miscounts(options_.faults);
  return gateway_totals().contradiction(clients, dispatcher_.options(), ledger);
}

}  // namespace penstock::simulation
