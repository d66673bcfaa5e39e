#include "gateway/desk_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace penstock::gateway {
namespace {

admission::GateLimits gate_limits(const GatewayOptions& options) {
  admission::GateLimits limits;
  limits.classes[static_cast<std::size_t>(admission::Class::kInteractive)] = {options.interactive.queue_time,
                                                                              options.interactive.budget};
  limits.classes[static_cast<std::size_t>(admission::Class::kBatch)] = {options.batch.queue_time, options.batch.budget};
  limits.queue = options.queue;
  return limits;
}

constexpr std::uint32_t kModelsMax = 1024;  // that are told apart in meters and lanes

}  // namespace

Refusal Desk::State::refusal_of(const admission::Answer& answer, std::string_view model) const {
  struct Words {
    int status;
    std::string_view type, code;
  };
  const Words words = [&]() -> Words {
    switch (answer.decision) {
      case admission::Decision::kRefuseBudget: return {429, "rate_limit_error", "token_budget_exceeded"};
      case admission::Decision::kRefuseConcurrency: return {429, "rate_limit_error", "too_many_requests"};
      case admission::Decision::kRefuseQueueFull: return {503, "overloaded_error", "queue_full"};
      case admission::Decision::kRefuseQueueTime: return {503, "overloaded_error", "queue_timeout"};
      default: return {503, "overloaded_error", "engines_full"};
    }
  }();
  Refusal refusal = make_refusal(words.status, words.type, words.code, answer.why);
  if (words.status == 503 && !replicas.serves(model)) {
    refusal.error.code = "no_replica";
    refusal.error.message = fmt::format("no replica serves the model {:?} now; {}", model, answer.why);
  }
  refusal.retry_after_s = answer.retry_after_s;
  return refusal;
}

Desk::State::State(const GatewayOptions& settings, std::unique_ptr<LedgerSink> ledger, core::Instant now)
    : options(settings), sink(std::move(ledger)), gate(gate_limits(settings), now), replicas(settings) {
  if (options.hot_prefixes) {
    ShelfOptions shelf_options;
    shelf_options.key_tokens = options.key_tokens;
    shelf.emplace(shelf_options);
  }
  for (std::uint32_t tenant = 0; tenant < options.tenants.size(); ++tenant) {
    const Tenant& said = options.tenants[tenant];
    gate.set_tenant(
        tenant,
        {said.name, said.weight, said.tier, said.budget, said.over_budget == OverBudget::kQueue, said.concurrent}, now);
    tenant_names.push_back(said.name);
  }
  const auto unix_now = std::chrono::system_clock::now().time_since_epoch();
  unix_ms_at_start = std::chrono::duration_cast<std::chrono::milliseconds>(unix_now - now.time_since_epoch()).count();
  // Above what any earlier run used, as long as no run begins more than a million requests a second.
  next_entry = static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(unix_now).count());
}

std::int64_t Desk::State::unix_ms(core::Instant now) const {
  return unix_ms_at_start + std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count();
}

std::vector<ReplicaStatus> Desk::State::statuses(core::Instant now) const {
  std::vector<ReplicaStatus> all;
  for (std::uint32_t slot = 0; slot < replicas.slots(); ++slot) {
    const ReplicaSet::Replica& replica = replicas.replica(slot);
    if (!replica.present && replica.open_requests == 0) continue;
    all.push_back({replica.spec, slot, replica.healthy, replica.breaker.state() == Breaker::State::kOpen,
                   replica.requests_total, replica.failures_total, replica.busy_total, replicas.load(slot, now)});
  }
  return all;
}

std::uint32_t Desk::State::lane_of(std::string_view model) {
  const auto known = std::find_if(lanes.begin(), lanes.end(), [&](const Lane& lane) { return lane.name == model; });
  if (known != lanes.end()) return static_cast<std::uint32_t>(known - lanes.begin());
  if (lanes.size() == kModelsMax) return kModelsMax - 1;
  lanes.push_back({std::string{model}, signals::SegmentMeter{options.slo.target.ttft}, {}, {}});
  return static_cast<std::uint32_t>(lanes.size() - 1);
}

std::optional<Refusal> Desk::State::objection(const Facts& facts, const admission::TokenEstimate& estimate) const {
  const Tenant& tenant = options.tenants[facts.tenant];
  if (!may_use(tenant, facts.model) || !replicas.knows(facts.model))
    return make_refusal(404, "invalid_request_error", "model_not_found",
                        fmt::format("the model {:?} does not exist here or may not be used with this key; /v1/models "
                                    "lists those there are",
                                    facts.model.substr(0, 200)),
                        "model");
  const std::uint32_t limit = context_tokens_of(options, tenant, facts.model);
  const std::uint64_t asked = std::uint64_t{estimate.prompt_tokens} + facts.max_tokens.value_or(0);
  if (asked > limit)
    return make_refusal(400, "invalid_request_error", "context_length_exceeded",
                        fmt::format("the request needs about {} tokens ({} of prompt, max_tokens {}), the limit is {}; "
                                    "shorten the prompt or lower max_tokens",
                                    asked, estimate.prompt_tokens, facts.max_tokens.value_or(0), limit),
                        "messages");
  return std::nullopt;
}

Flight& Desk::State::open(const Facts& facts, Mailbox& mailbox, const admission::TokenEstimate& estimate) {
  Flight& flight = flights.add();
  flight.mailbox = &mailbox;
  flight.tenant = facts.tenant;
  flight.lane = lane_of(facts.model);
  flight.traffic_class = facts.traffic_class;
  flight.estimate = estimate;
  flight.text_bytes = facts.text_bytes;
  flight.prompt_tokens_given = facts.prompt_tokens_given;
  flight.max_tokens = facts.max_tokens;
  flight.affinity = facts.affinity;
  flight.stream = facts.stream;
  flight.splits = facts.splits;
  flight.route = facts.route;
  flight.keys.assign(facts.keys.begin(), facts.keys.end());
  flight.received_at = facts.received_at;
  flight.entry.request_id = facts.request_id;
  flight.entry.tenant = tenant_names[facts.tenant];
  flight.entry.model = facts.model;
  flight.entry.traffic_class = admission::to_string(facts.traffic_class);
  return flight;
}

admission::TokenEstimator::Request Desk::State::estimate_request(const Flight& flight) const {
  return {flight.entry.model, flight.entry.tenant,        flight.entry.traffic_class,
          flight.text_bytes,  flight.prompt_tokens_given, flight.max_tokens};
}

// ---- the choice ------------------------------------------------------------------------------------------------------

routing::Ask Desk::State::ask_of(const Flight& flight) const {
  routing::Ask ask;
  ask.key_tokens = options.key_tokens;
  ask.output_tokens = flight.estimate.output_tokens;
  ask.without = flight.failed_slots;
  if (flight.decodes_only) return ask;
  ask.keys = flight.keys;
  ask.input_tokens = flight.estimate.prompt_tokens;
  ask.affinity = flight.affinity;
  if (flight.traffic_class == admission::Class::kBatch) ask.affinity_worth *= 10;
  return ask;
}

std::optional<Desk::State::Option> Desk::State::choose(const Flight& flight, core::Instant now) {
  using signals::Role;
  const routing::Ask ask = ask_of(flight);
  const auto from = [&](Role role, bool prefill_only) -> std::optional<Option> {
    const auto group = replicas.group_of(flight.entry.model, role);
    if (!group) return std::nullopt;
    const auto selection = replicas.selector(*group).choose(ask, now);
    if (!selection) return std::nullopt;
    return Option{*group, *selection, prefill_only};
  };
  if (flight.decodes_only) return from(Role::kDecode, false);
  if (auto whole = from(Role::kAggregated, false)) return whole;
  if (!flight.splits) return std::nullopt;
  // Without a decode replica nobody could go on with what is prefilled.
  const auto decode = replicas.group_of(flight.entry.model, Role::kDecode);
  if (!decode || !replicas.selector(*decode).choose(routing::Ask{}, now)) return std::nullopt;
  return from(Role::kPrefill, true);
}

admission::Verdict Desk::State::judge(const Flight& flight, const Option& option, core::Instant now) const {
  if (flight.decodes_only) return admission::Verdict::kAdmit;
  const routing::Selector::Load load = replicas.load(option.selection.slot, now);
  return admission::judge({load.kv_usage, load.prefill_tokens, load.open_requests}, option.selection.uncached_tokens,
                          options.pressure);
}

Grant Desk::State::dispatch(Flight& flight, const Option& option, core::Instant now) {
  const routing::Ask ask = ask_of(flight);
  flight.slot = flight.last_slot = option.selection.slot;
  flight.slot_answered = false;
  flight.uncached_tokens = option.selection.uncached_tokens;
  flight.input_tokens = ask.input_tokens;
  if (!flight.decodes_only)
    flight.cached_tokens = ask.input_tokens - std::min(ask.input_tokens, option.selection.uncached_tokens);
  flight.dispatched_at = now;
  flight.overlap_used_at = option.selection.overlap_used_at;
  ++flight.attempts;
  replicas.dispatched(flight.slot, ask, option.selection, now);
  if (!flight.stream)
    unseen_first_tokens.emplace(now + core::from_milliseconds(option.selection.expected_ttft_ms), flight.ticket);
  Grant grant;
  grant.target = replicas.replica(flight.slot).target;
  grant.prefill_only = option.prefill_only;
  grant.why = option.selection.why;
  grant.prompt_tokens = flight.estimate.prompt_tokens;
  grant.max_tokens =
      admission::clamped_max_tokens(flight.max_tokens, gate.waiting_tokens(flight.lane), options.pressure);
  if (grant.max_tokens && flight.attempts == 1) ++clamped;
  flight.entry.replica = grant.target->id;
  return grant;
}

// Let in: from here on it counts, and the ledger has it.
void Desk::State::grant(Flight& flight, core::Instant now) {
  flight.granted = true;
  flight.granted_at = now;
  ++granted;
  flight.entry.id = ++next_entry;
  flight.entry.opened_unix_ms = unix_ms(now);
  flight.entry.reserved_tokens = flight.estimate.total();
  // What is charged should the gateway die before it knows better.
  flight.entry.prompt_tokens = flight.estimate.prompt_tokens;
  if (const Model* model = model_of(options, flight.entry.model))
    flight.entry.cost = ledger::cost_of(flight.entry, model->price);
  balance.open(flight.entry);
  if (sink) unopened.emplace_back(now, flight.ticket);
}

void Desk::State::open_entries(core::Instant now) {
  for (; !unopened.empty() && unopened.front().first + kOpenedAfter <= now; unopened.pop_front())
    if (const Flight* flight = flights.find(unopened.front().second)) sink->opened(flight->entry);
}

void Desk::State::assume_first_tokens(core::Instant now) {
  while (!unseen_first_tokens.empty() && unseen_first_tokens.top().first <= now) {
    Flight* flight = flights.find(unseen_first_tokens.top().second);
    unseen_first_tokens.pop();
    if (flight == nullptr || flight->slot == kNoSlot || flight->slot_answered) continue;
    flight->slot_answered = true;
    replicas.selector(replicas.replica(flight->slot).group)
        .assume_first_token(flight->slot, flight->uncached_tokens, flight->dispatched_at, now);
  }
}

void Desk::State::leave_slot(Flight& flight) {
  if (flight.slot == kNoSlot) return;
  const std::uint32_t group = replicas.replica(flight.slot).group;
  replicas.selector(group).finished(flight.slot, flight.uncached_tokens, flight.input_tokens,
                                    flight.estimate.output_tokens, flight.slot_answered);
  replicas.left(flight.slot);
  flight.slot = kNoSlot;
}

// ---- the end ---------------------------------------------------------------------------------------------------------

Refusal Desk::State::refuse(const Facts& facts, Refusal refusal) {
  ++refused;
  ++refusals[std::string{refusal.error.code}];
  ledger::Entry entry;
  entry.tenant = tenant_names[facts.tenant];
  // A name that nobody serves would let clients grow the sums.
  entry.model = refusal.error.code == "model_not_found" ? std::string{"unknown"} : std::string{facts.model};
  entry.outcome = ledger::Outcome::kRefused;
  balance.refuse(entry);
  return refusal;
}

void Desk::State::drop(Flight& flight, ledger::Outcome outcome, core::Instant now) {
  ++refused;
  flight.entry.outcome = ledger::Outcome::kRefused;  // the ledger's word for all that was never let in
  balance.refuse(flight.entry);
  tell_end(flight, outcome, now);
  flights.remove(flight);
}

void Desk::State::correct_cache(const Flight& flight, const Ending& ending) {
  // What was sent shortly before may not have been computed when this one was looked up.
  constexpr core::Duration kComputed = std::chrono::seconds{30};
  constexpr double kFarLess = 0.5;  // as estimates of tokens and those of the engine differ
  if (flight.slot == kNoSlot || flight.decodes_only || !ending.usage) return;
  // vLLM says how much was cached where it was anything, and otherwise nothing.
  if (ending.usage->cached_known) replicas.tells_cached(flight.slot);
  if (!replicas.replica(flight.slot).tells_cached) return;
  if (flight.overlap_used_at == core::kNever || flight.dispatched_at - flight.overlap_used_at < kComputed) return;
  const double believed = 1.0 * flight.cached_tokens / std::max(1U, flight.input_tokens);
  const double measured = 1.0 * ending.usage->cached_tokens / std::max(1U, ending.usage->prompt_tokens);
  if (measured < kFarLess * believed)
    replicas.selector(replicas.replica(flight.slot).group).lacked(flight.slot, flight.overlap_used_at);
}

void Desk::State::settle(Flight& flight, const Ending& ending, core::Instant now) {
  ledger::Entry& entry = flight.entry;
  entry.outcome = ending.outcome;
  entry.prompt_tokens = 0;
  entry.cost = 0.0;
  entry.closed_unix_ms = std::max(entry.opened_unix_ms, unix_ms(now));
  const bool worked = flight.answered || ending.usage || ending.outcome == ledger::Outcome::kCompleted;
  if (ending.usage) {
    entry.measured = true;
    entry.prompt_tokens = ending.usage->prompt_tokens;
    entry.cached_tokens = std::min(ending.usage->cached_tokens, ending.usage->prompt_tokens);
    entry.output_tokens = ending.usage->completion_tokens;
    gate.estimator().learn(estimate_request(flight), ending.usage->prompt_tokens, ending.usage->completion_tokens);
  } else if (worked) {
    entry.prompt_tokens = flight.estimate.prompt_tokens;
    entry.cached_tokens = std::min<std::uint64_t>(flight.cached_tokens, entry.prompt_tokens);
    entry.output_tokens = ending.output_events;
  }
  if (flight.answered) {
    entry.ttft_ms = core::to_milliseconds(flight.answered_at - flight.received_at);
    if (entry.output_tokens > 1 && ending.last_token_at > flight.answered_at)
      entry.itl_ms = core::to_milliseconds(ending.last_token_at - flight.answered_at) /
                     static_cast<double>(entry.output_tokens - 1);
  }
  if (const Model* model = model_of(options, entry.model)) entry.cost = ledger::cost_of(entry, model->price);
  gate.ended(flight.ticket, entry.prompt_tokens + entry.output_tokens, now);
  balance.close(entry);
  note_end(flight, ending, now);
  if (sink) sink->closed(entry);
}

void Desk::State::note_first_token(const Flight& flight, core::Instant now) {
  const double ttft_ms = core::to_milliseconds(now - flight.received_at);
  Lane& lane = lanes[flight.lane];
  lane.ttft_ms.add(ttft_ms);
  signals::FirstTokenTimes times;
  times.admission = std::max(core::Duration{}, flight.granted_at - flight.received_at);
  times.prefill = now - flight.received_at - times.admission;
  lane.segments.first_token(now, flight.traits(), times);
  TrafficEvent event;
  event.kind = TrafficEvent::Kind::kFirstToken;
  event.request = flight.ticket;
  event.at = now;
  const core::Instant wanted_at = flight.wanted_at.value_or(flight.received_at);
  event.admission_ms = core::to_milliseconds(std::max(core::Duration{}, flight.granted_at - wanted_at));
  event.ttft_ms = core::to_milliseconds(now - wanted_at);
  event.cached_tokens = flight.cached_tokens;
  traffic.add(std::move(event));
}

void Desk::State::note_end(const Flight& flight, const Ending& ending, core::Instant now) {
  const ledger::Entry& entry = flight.entry;
  Lane& lane = lanes[flight.lane];
  if (entry.itl_ms >= 0.0) lane.itl_ms.add(entry.itl_ms);
  if (ending.outcome == ledger::Outcome::kCompleted && flight.answered)
    lane.segments.completed(now, flight.traits(), static_cast<std::uint32_t>(entry.output_tokens), entry.ttft_ms,
                            std::max(0.0, entry.itl_ms));
  tell_end(flight, ending.outcome, now);
}

void Desk::State::tell_arrival(Flight& flight, core::Instant at) {
  if (flight.wanted_at) return;
  flight.wanted_at = at;
  TrafficEvent event;
  event.kind = TrafficEvent::Kind::kArrival;
  event.request = flight.ticket;
  event.at = at;
  event.model = flight.entry.model;
  event.route = flight.route;
  event.traffic_class = flight.entry.traffic_class;
  event.tenant = flight.entry.tenant;
  event.input_tokens = flight.estimate.prompt_tokens;
  event.keys = flight.keys;
  traffic.add(std::move(event));
}

void Desk::State::tell_end(const Flight& flight, ledger::Outcome outcome, core::Instant now) {
  if (!flight.wanted_at) return;
  const ledger::Entry& entry = flight.entry;
  TrafficEvent event;
  event.kind = TrafficEvent::Kind::kEnd;
  event.request = flight.ticket;
  event.at = now;
  event.outcome = outcome;
  event.replica = entry.replica;
  event.prompt_tokens = static_cast<std::uint32_t>(entry.prompt_tokens);
  event.output_tokens = static_cast<std::uint32_t>(entry.output_tokens);
  event.itl_ms = entry.itl_ms;
  traffic.add(std::move(event));
}

// Refuses what has waited too long and lets in what may be let in.
void Desk::State::pump(core::Instant now) {
  if (gate.waiting() == 0) return;
  for (const admission::Refused& late : gate.expired(now)) {
    Flight* flight = flights.find(late.ticket);
    PENSTOCK_ASSERT(flight != nullptr, "what waits at the gate is in hand");
    Refusal refusal = refusal_of(late.answer, flight->entry.model);
    ++refusals[std::string{refusal.error.code}];
    if (!late.answer.own_limit) tell_arrival(*flight, flight->received_at);
    flight->mailbox->deliver(late.ticket, std::move(refusal));
    drop(*flight, ledger::Outcome::kRefused, now);
  }
  const auto verdict_of = [&](std::uint64_t ticket) {
    Flight* flight = flights.find(ticket);
    PENSTOCK_ASSERT(flight != nullptr, "what waits at the gate is in hand");
    const auto option = choose(*flight, now);
    if (!option) return admission::Verdict::kWait;
    const admission::Verdict verdict = judge(*flight, *option, now);
    // Its tokens count before the next one is asked about.
    if (verdict == admission::Verdict::kAdmit) flight->grant = dispatch(*flight, *option, now);
    return verdict;
  };
  for (bool more = true; more;) {
    const admission::Next next = gate.next(now, verdict_of);
    more = next.more && !next.admitted.empty();
    for (const admission::Admitted& admitted : next.admitted) {
      Flight* flight = flights.find(admitted.ticket);
      tell_arrival(*flight, now);
      grant(*flight, now);
      flight->mailbox->deliver(flight->ticket, std::move(flight->grant));
    }
  }
}

}  // namespace penstock::gateway
