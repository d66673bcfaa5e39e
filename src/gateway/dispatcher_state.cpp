#include "gateway/dispatcher_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace penstock::gateway {
namespace {

admission::AdmissionLimits gate_limits(const GatewayOptions& options) {
  admission::AdmissionLimits limits;
  limits.classes[static_cast<std::size_t>(admission::Class::kInteractive)] = {options.interactive.queue_time,
                                                                              options.interactive.budget};
  limits.classes[static_cast<std::size_t>(admission::Class::kBatch)] = {options.batch.queue_time, options.batch.budget};
  limits.queue = options.queue;
  return limits;
}

constexpr std::uint32_t kModelsMax = 1024;  // that are told apart in meters and lanes

}  // namespace

Refusal Dispatcher::State::refusal_of(const admission::Answer& answer, std::string_view model) const {
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

Dispatcher::State::State(const GatewayOptions& settings, std::unique_ptr<LedgerSink> ledger, core::Instant now)
    : options(settings), sink(std::move(ledger)), controller(gate_limits(settings), now), replicas(settings) {
  if (options.hot_prefixes) {
    HotPrefixCacheOptions shelf_options;
    shelf_options.key_tokens = options.key_tokens;
    hot_prefix_cache.emplace(shelf_options);
  }
  for (std::uint32_t tenant = 0; tenant < options.tenants.size(); ++tenant) {
    const Tenant& said = options.tenants[tenant];
    controller.set_tenant(
        tenant,
        {said.name, said.weight, said.tier, said.budget, said.over_budget == OverBudget::kQueue, said.concurrent}, now);
    tenant_names.push_back(said.name);
  }
  const auto unix_now = std::chrono::system_clock::now().time_since_epoch();
  unix_ms_at_start = std::chrono::duration_cast<std::chrono::milliseconds>(unix_now - now.time_since_epoch()).count();
  // Above what any earlier run used, as long as no run begins more than a million requests a second.
  next_entry = static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(unix_now).count());
}

std::int64_t Dispatcher::State::unix_ms(core::Instant now) const {
  return unix_ms_at_start + std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count();
}

std::vector<ReplicaStatus> Dispatcher::State::statuses(core::Instant now) const {
  std::vector<ReplicaStatus> all;
  for (std::uint32_t slot = 0; slot < replicas.slots(); ++slot) {
    const ReplicaSet::Replica& replica = replicas.replica(slot);
    if (!replica.present && replica.open_requests == 0) continue;
    all.push_back({replica.spec, slot, replica.healthy, replica.breaker.state() == Breaker::State::kOpen,
                   replica.requests_total, replica.failures_total, replica.busy_total, replicas.load(slot, now)});
  }
  return all;
}

std::uint32_t Dispatcher::State::lane_of(std::string_view model) {
  const auto known = std::find_if(lanes.begin(), lanes.end(), [&](const Lane& lane) { return lane.name == model; });
  if (known != lanes.end()) return static_cast<std::uint32_t>(known - lanes.begin());
  if (lanes.size() == kModelsMax) return kModelsMax - 1;
  lanes.push_back({std::string{model}, signals::SegmentMeter{options.slo.target.ttft}, {}, {}});
  return static_cast<std::uint32_t>(lanes.size() - 1);
}

std::optional<Refusal> Dispatcher::State::objection(const RequestInfo& info,
                                                    const admission::TokenEstimate& estimate) const {
  const Tenant& tenant = options.tenants[info.tenant];
  if (!may_use(tenant, info.model) || !replicas.knows(info.model))
    return make_refusal(404, "invalid_request_error", "model_not_found",
                        fmt::format("the model {:?} does not exist here or may not be used with this key; /v1/models "
                                    "lists those there are",
                                    info.model.substr(0, 200)),
                        "model");
  const std::uint32_t limit = context_tokens_of(options, tenant, info.model);
  const std::uint64_t asked = std::uint64_t{estimate.prompt_tokens} + info.max_tokens.value_or(0);
  if (asked > limit)
    return make_refusal(400, "invalid_request_error", "context_length_exceeded",
                        fmt::format("the request needs about {} tokens ({} of prompt, max_tokens {}), the limit is {}; "
                                    "shorten the prompt or lower max_tokens",
                                    asked, estimate.prompt_tokens, info.max_tokens.value_or(0), limit),
                        "messages");
  return std::nullopt;
}

ActiveRequest& Dispatcher::State::open(const RequestInfo& info, GrantListener& listener,
                                       const admission::TokenEstimate& estimate) {
  ActiveRequest& request = active_requests.add();
  request.listener = &listener;
  request.tenant = info.tenant;
  request.lane = lane_of(info.model);
  request.traffic_class = info.traffic_class;
  request.estimate = estimate;
  request.text_bytes = info.text_bytes;
  request.prompt_tokens_given = info.prompt_tokens_given;
  request.max_tokens = info.max_tokens;
  request.affinity = info.affinity;
  request.stream = info.stream;
  request.splits = info.splits;
  request.route = info.route;
  request.keys.assign(info.keys.begin(), info.keys.end());
  request.received_at = info.received_at;
  request.entry.request_id = info.request_id;
  request.entry.tenant = tenant_names[info.tenant];
  request.entry.model = info.model;
  request.entry.traffic_class = admission::to_string(info.traffic_class);
  return request;
}

admission::TokenEstimator::Request Dispatcher::State::estimate_request(const ActiveRequest& request) const {
  return {request.entry.model, request.entry.tenant,        request.entry.traffic_class,
          request.text_bytes,  request.prompt_tokens_given, request.max_tokens};
}

// ---- the choice ------------------------------------------------------------------------------------------------------

routing::PickRequest Dispatcher::State::ask_of(const ActiveRequest& request) const {
  routing::PickRequest ask;
  ask.key_tokens = options.key_tokens;
  ask.output_tokens = request.estimate.output_tokens;
  ask.without = request.failed_slots;
  if (request.decodes_only) return ask;
  ask.keys = request.keys;
  ask.input_tokens = request.estimate.prompt_tokens;
  ask.affinity = request.affinity;
  if (request.traffic_class == admission::Class::kBatch) ask.affinity_tolerance *= 10;
  return ask;
}

std::optional<Dispatcher::State::Option> Dispatcher::State::choose(const ActiveRequest& request, core::Instant now) {
  using signals::Role;
  const routing::PickRequest ask = ask_of(request);
  const auto from = [&](Role role, bool prefill_only) -> std::optional<Option> {
    const auto group = replicas.group_of(request.entry.model, role);
    if (!group) return std::nullopt;
    const auto selection = replicas.picker(*group).choose(ask, now);
    if (!selection) return std::nullopt;
    return Option{*group, *selection, prefill_only};
  };
  if (request.decodes_only) return from(Role::kDecode, false);
  if (auto whole = from(Role::kAggregated, false)) return whole;
  if (!request.splits) return std::nullopt;
  // Without a decode replica nobody could go on with what is prefilled.
  const auto decode = replicas.group_of(request.entry.model, Role::kDecode);
  if (!decode || !replicas.picker(*decode).choose(routing::PickRequest{}, now)) return std::nullopt;
  return from(Role::kPrefill, true);
}

admission::Verdict Dispatcher::State::judge(const ActiveRequest& request, const Option& option,
                                            core::Instant now) const {
  if (request.decodes_only) return admission::Verdict::kAdmit;
  const routing::EndpointPicker::Load load = replicas.load(option.selection.slot, now);
  return admission::check_saturation({load.kv_usage, load.prefill_tokens, load.open_requests}, option.selection.uncached_tokens,
                          options.pressure);
}

Grant Dispatcher::State::dispatch(ActiveRequest& request, const Option& option, core::Instant now) {
  const routing::PickRequest ask = ask_of(request);
  request.slot = request.last_slot = option.selection.slot;
  request.slot_answered = false;
  request.uncached_tokens = option.selection.uncached_tokens;
  request.input_tokens = ask.input_tokens;
  if (!request.decodes_only)
    request.cached_tokens = ask.input_tokens - std::min(ask.input_tokens, option.selection.uncached_tokens);
  request.dispatched_at = now;
  request.overlap_used_at = option.selection.overlap_used_at;
  ++request.attempts;
  replicas.dispatched(request.slot, ask, option.selection, now);
  if (!request.stream)
    unseen_first_tokens.emplace(now + core::from_milliseconds(option.selection.expected_ttft_ms), request.ticket);
  Grant grant;
  grant.target = replicas.replica(request.slot).target;
  grant.prefill_only = option.prefill_only;
  grant.why = option.selection.why;
  grant.prompt_tokens = request.estimate.prompt_tokens;
  grant.max_tokens =
      admission::clamped_max_tokens(request.max_tokens, controller.waiting_tokens(request.lane), options.pressure);
  if (grant.max_tokens && request.attempts == 1) ++clamped;
  request.entry.replica = grant.target->id;
  return grant;
}

// Let in: from here on it counts, and the ledger has it.
void Dispatcher::State::grant(ActiveRequest& request, core::Instant now) {
  request.granted = true;
  request.granted_at = now;
  ++granted;
  request.entry.id = ++next_entry;
  request.entry.opened_unix_ms = unix_ms(now);
  request.entry.reserved_tokens = request.estimate.total();
  // What is charged should the admission controllerway die before it knows better.
  request.entry.prompt_tokens = request.estimate.prompt_tokens;
  if (const Model* model = model_of(options, request.entry.model))
    request.entry.cost = ledger::cost_of(request.entry, model->price);
  balance.open(request.entry);
  if (sink) unopened.emplace_back(now, request.ticket);
}

void Dispatcher::State::open_entries(core::Instant now) {
  for (; !unopened.empty() && unopened.front().first + kOpenedAfter <= now; unopened.pop_front())
    if (const ActiveRequest* request = active_requests.find(unopened.front().second)) sink->opened(request->entry);
}

void Dispatcher::State::assume_first_tokens(core::Instant now) {
  while (!unseen_first_tokens.empty() && unseen_first_tokens.top().first <= now) {
    ActiveRequest* request = active_requests.find(unseen_first_tokens.top().second);
    unseen_first_tokens.pop();
    if (request == nullptr || request->slot == kNoSlot || request->slot_answered) continue;
    request->slot_answered = true;
    replicas.picker(replicas.replica(request->slot).group)
        .assume_first_token(request->slot, request->uncached_tokens, request->dispatched_at, now);
  }
}

void Dispatcher::State::leave_slot(ActiveRequest& request) {
  if (request.slot == kNoSlot) return;
  const std::uint32_t group = replicas.replica(request.slot).group;
  replicas.picker(group).finished(request.slot, request.uncached_tokens, request.input_tokens,
                                  request.estimate.output_tokens, request.slot_answered);
  replicas.left(request.slot);
  request.slot = kNoSlot;
}

// ---- the end ---------------------------------------------------------------------------------------------------------

Refusal Dispatcher::State::refuse(const RequestInfo& info, Refusal refusal) {
  ++refused;
  ++refusals[std::string{refusal.error.code}];
  ledger::Entry entry;
  entry.tenant = tenant_names[info.tenant];
  // A name that nobody serves would let clients grow the sums.
  entry.model = refusal.error.code == "model_not_found" ? std::string{"unknown"} : std::string{info.model};
  entry.outcome = ledger::Outcome::kRefused;
  balance.refuse(entry);
  return refusal;
}

void Dispatcher::State::drop(ActiveRequest& request, ledger::Outcome outcome, core::Instant now) {
  ++refused;
  request.entry.outcome = ledger::Outcome::kRefused;  // the ledger's word for all that was never let in
  balance.refuse(request.entry);
  tell_end(request, outcome, now);
  active_requests.remove(request);
}

void Dispatcher::State::correct_cache(const ActiveRequest& request, const RequestOutcome& ending) {
  // What was sent shortly before may not have been computed when this one was looked up.
  constexpr core::Duration kComputed = std::chrono::seconds{30};
  constexpr double kFarLess = 0.5;  // as estimates of tokens and those of the engine differ
  if (request.slot == kNoSlot || request.decodes_only || !ending.usage) return;
  // vLLM says how much was cached where it was anything, and otherwise nothing.
  if (ending.usage->cached_known) replicas.tells_cached(request.slot);
  if (!replicas.replica(request.slot).tells_cached) return;
  if (request.overlap_used_at == core::kNever || request.dispatched_at - request.overlap_used_at < kComputed) return;
  const double believed = 1.0 * request.cached_tokens / std::max(1U, request.input_tokens);
  const double measured = 1.0 * ending.usage->cached_tokens / std::max(1U, ending.usage->prompt_tokens);
  if (measured < kFarLess * believed)
    replicas.picker(replicas.replica(request.slot).group).prefix_missing(request.slot, request.overlap_used_at);
}

void Dispatcher::State::settle(ActiveRequest& request, const RequestOutcome& ending, core::Instant now) {
  ledger::Entry& entry = request.entry;
  entry.outcome = ending.outcome;
  entry.prompt_tokens = 0;
  entry.cost = 0.0;
  entry.closed_unix_ms = std::max(entry.opened_unix_ms, unix_ms(now));
  const bool worked = request.answered || ending.usage || ending.outcome == ledger::Outcome::kCompleted;
  if (ending.usage) {
    entry.measured = true;
    entry.prompt_tokens = ending.usage->prompt_tokens;
    entry.cached_tokens = std::min(ending.usage->cached_tokens, ending.usage->prompt_tokens);
    entry.output_tokens = ending.usage->completion_tokens;
    controller.estimator().learn(estimate_request(request), ending.usage->prompt_tokens,
                                 ending.usage->completion_tokens);
  } else if (worked) {
    entry.prompt_tokens = request.estimate.prompt_tokens;
    entry.cached_tokens = std::min<std::uint64_t>(request.cached_tokens, entry.prompt_tokens);
    entry.output_tokens = ending.output_events;
  }
  if (request.answered) {
    entry.ttft_ms = core::to_milliseconds(request.answered_at - request.received_at);
    if (entry.output_tokens > 1 && ending.last_token_at > request.answered_at)
      entry.itl_ms = core::to_milliseconds(ending.last_token_at - request.answered_at) /
                     static_cast<double>(entry.output_tokens - 1);
  }
  if (const Model* model = model_of(options, entry.model)) entry.cost = ledger::cost_of(entry, model->price);
  controller.ended(request.ticket, entry.prompt_tokens + entry.output_tokens, now);
  balance.close(entry);
  note_end(request, ending, now);
  if (sink) sink->closed(entry);
}

void Dispatcher::State::note_first_token(const ActiveRequest& request, core::Instant now) {
  const double ttft_ms = core::to_milliseconds(now - request.received_at);
  Lane& lane = lanes[request.lane];
  lane.ttft_ms.add(ttft_ms);
  signals::FirstTokenTimes times;
  times.admission = std::max(core::Duration{}, request.granted_at - request.received_at);
  times.prefill = now - request.received_at - times.admission;
  lane.segments.first_token(now, request.traits(), times);
  TrafficEvent event;
  event.kind = TrafficEvent::Kind::kFirstToken;
  event.request = request.ticket;
  event.at = now;
  const core::Instant wanted_at = request.wanted_at.value_or(request.received_at);
  event.admission_ms = core::to_milliseconds(std::max(core::Duration{}, request.granted_at - wanted_at));
  event.ttft_ms = core::to_milliseconds(now - wanted_at);
  event.cached_tokens = request.cached_tokens;
  traffic.add(std::move(event));
}

void Dispatcher::State::note_end(const ActiveRequest& request, const RequestOutcome& ending, core::Instant now) {
  const ledger::Entry& entry = request.entry;
  Lane& lane = lanes[request.lane];
  if (entry.itl_ms >= 0.0) lane.itl_ms.add(entry.itl_ms);
  if (ending.outcome == ledger::Outcome::kCompleted && request.answered)
    lane.segments.completed(now, request.traits(), static_cast<std::uint32_t>(entry.output_tokens), entry.ttft_ms,
                            std::max(0.0, entry.itl_ms));
  tell_end(request, ending.outcome, now);
}

void Dispatcher::State::tell_arrival(ActiveRequest& request, core::Instant at) {
  if (request.wanted_at) return;
  request.wanted_at = at;
  TrafficEvent event;
  event.kind = TrafficEvent::Kind::kArrival;
  event.request = request.ticket;
  event.at = at;
  event.model = request.entry.model;
  event.route = request.route;
  event.traffic_class = request.entry.traffic_class;
  event.tenant = request.entry.tenant;
  event.input_tokens = request.estimate.prompt_tokens;
  event.keys = request.keys;
  traffic.add(std::move(event));
}

void Dispatcher::State::tell_end(const ActiveRequest& request, ledger::Outcome outcome, core::Instant now) {
  if (!request.wanted_at) return;
  const ledger::Entry& entry = request.entry;
  TrafficEvent event;
  event.kind = TrafficEvent::Kind::kEnd;
  event.request = request.ticket;
  event.at = now;
  event.outcome = outcome;
  event.replica = entry.replica;
  event.prompt_tokens = static_cast<std::uint32_t>(entry.prompt_tokens);
  event.output_tokens = static_cast<std::uint32_t>(entry.output_tokens);
  event.itl_ms = entry.itl_ms;
  traffic.add(std::move(event));
}

// Refuses what has waited too long and lets in what may be let in.
void Dispatcher::State::pump(core::Instant now) {
  if (controller.waiting() == 0) return;
  for (const admission::Refused& late : controller.expired(now)) {
    ActiveRequest* request = active_requests.find(late.ticket);
    PENSTOCK_ASSERT(request != nullptr, "what waits in the admission queue is in hand");
    Refusal refusal = refusal_of(late.answer, request->entry.model);
    ++refusals[std::string{refusal.error.code}];
    if (!late.answer.own_limit) tell_arrival(*request, request->received_at);
    request->listener->deliver(late.ticket, std::move(refusal));
    drop(*request, ledger::Outcome::kRefused, now);
  }
  const auto verdict_of = [&](std::uint64_t ticket) {
    ActiveRequest* request = active_requests.find(ticket);
    PENSTOCK_ASSERT(request != nullptr, "what waits in the admission queue is in hand");
    const auto option = choose(*request, now);
    if (!option) return admission::Verdict::kWait;
    const admission::Verdict verdict = judge(*request, *option, now);
    // Its tokens count before the next one is asked about.
    if (verdict == admission::Verdict::kAdmit) request->grant = dispatch(*request, *option, now);
    return verdict;
  };
  for (bool more = true; more;) {
    const admission::Next next = controller.next(now, verdict_of);
    more = next.more && !next.admitted.empty();
    for (const admission::Admitted& admitted : next.admitted) {
      ActiveRequest* request = active_requests.find(admitted.ticket);
      tell_arrival(*request, now);
      grant(*request, now);
      request->listener->deliver(request->ticket, std::move(request->grant));
    }
  }
}

}  // namespace penstock::gateway
