#include "dispatch/dispatcher.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/key_salt.h"
#include "dispatch/request_check.h"
#include "dispatch/request_reservation.h"
#include "dispatch/retries.h"
#include "dispatch/usage_check.h"

namespace penstock::dispatch {
namespace {

admission::AdmissionLimits admission_limits(const DispatchOptions& options) {
  admission::AdmissionLimits limits;
  for (const admission::Class each : {admission::Class::kInteractive, admission::Class::kBatch}) {
    const ClassOptions& from = options.of_class(each);
    limits.classes[index_of(each)] = {from.queue_time, from.budget, from.overload, from.cold_start_queue_time};
  }
  limits.queue = options.queue;
  return limits;
}

// A budget is full after twice this time without any use, whatever its level was.
core::Duration refill_time(const admission::BudgetLimits& budget) {
  constexpr double kLongestS = 86'400.0 * 366;
  if (!budget.limited()) return {};
  return core::from_seconds(std::min(60.0 * budget.capacity() / budget.tokens_per_minute, kLongestS));
}

core::Duration longest_refill_time(const DispatchOptions& options) {
  core::Duration longest = std::max(refill_time(options.interactive.budget), refill_time(options.batch.budget));
  for (const Tenant& tenant : options.tenants) longest = std::max(longest, refill_time(tenant.budget));
  return longest;
}

// The request as its engine gets it: no answer is longer than the cap.
RequestInfo capped(RequestInfo info, const TokenCaps& caps) {
  info.max_tokens_capped = caps.completion_tokens > 0 && info.max_tokens > caps.completion_tokens;
  if (info.max_tokens_capped) info.max_tokens = caps.completion_tokens;
  return info;
}

admission::TokenEstimator::Request estimator_request(const RequestInfo& info, std::string_view tenant,
                                                     const TokenCaps& caps) {
  std::optional<std::uint32_t> max_tokens = info.max_tokens;
  if (!max_tokens && caps.completion_tokens > 0) max_tokens = caps.completion_tokens;
  return {info.model,
          tenant,
          admission::to_string(info.traffic_class),
          info.text_bytes,
          info.prompt_tokens_given,
          limit_of(info.answers, max_tokens),
          info.text_kind,
          info.media_tokens};
}

admission::TokenEstimator::Request estimator_request(const ActiveRequest& request) {
  return {request.entry.model,         request.entry.tenant,         request.entry.traffic_class, request.text_bytes,
          request.prompt_tokens_given, request.output_tokens_most(), request.text_kind,           request.media_tokens};
}

// Of one prompt and its answer.
std::uint32_t context_needed(const RequestInfo& info, const admission::TokenEstimate& estimate) {
  const std::uint64_t tokens = estimate.prompt_tokens / info.prompts + info.max_tokens.value_or(0);
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(tokens, UINT32_MAX));
}

// A truncated prompt has lost at least one token, whatever the estimates say.
std::uint32_t truncated_tokens(const RequestInfo& info, const admission::TokenEstimate& estimate) {
  if (info.untruncated_prompt_tokens == 0) return 0;
  return std::max(info.untruncated_prompt_tokens, estimate.prompt_tokens + 1) - estimate.prompt_tokens;
}

// What the caller says of the request, whatever its class.
void describe(ActiveRequest& request, const RequestInfo& info, const admission::TokenEstimate& estimate) {
  request.context_needed = context_needed(info, estimate);
  request.entry.request_id = info.request_id;
  request.entry.key_name = info.key_name;
  request.entry.model = info.model;
  request.tenant = info.tenant;
  request.text_bytes = info.text_bytes;
  request.text_kind = info.text_kind;
  request.media_tokens = info.media_tokens;
  request.truncated_prompt_tokens = truncated_tokens(info, estimate);
  request.answers = info.answers;
  request.affinity = info.affinity;
  request.stream = info.stream;
  request.splits = info.splits;
  request.prefilled = info.prefilled;
  request.route = info.route;
  request.received_at = info.received_at;
  request.keys.assign(info.keys.begin(), info.keys.end());
  request.unshared_keys = info.unshared_keys;
}

// What its class decides.
void classify(ActiveRequest& request, const RequestInfo& info, const admission::TokenEstimate& estimate,
              const DispatchOptions& options, const ReplicaSet& replicas, const RequestRouter& router,
              const admission::AdmissionController& admission) {
  request.entry.traffic_class = admission::to_string(info.traffic_class);
  request.traffic_class = info.traffic_class;
  request.moved_to_batch = info.moved_to_batch;
  request.estimate = estimate;
  request.max_tokens = info.max_tokens;
  request.lowered = info.max_tokens_capped;
  request.writes_max_tokens = info.writes_max_tokens || info.max_tokens_capped;
  request.overload = admission.overload_action(info.tenant, info.traffic_class);
  request.pool = info.pool ? *info.pool : router.own_pool(request);
  reserve(request, info, options, replicas, admission.capacity(request.tenant, request.traffic_class));
}

admission::TenantLimits limits_of(const Tenant& tenant) {
  return {tenant.name,       tenant.weight,  tenant.tier, tenant.budget, tenant.over_budget != OverBudget::kReject,
          tenant.concurrent, tenant.overload};
}

bool is_over_limits(const admission::AdmissionController::Tenant& tenant, const ActiveRequest& request) {
  return tenant.is_full || tenant.available_tokens < static_cast<double>(request.claim.needed);
}

void report_attempt(ReplicaSet& replicas, const ActiveRequest& request, Attempt attempt, core::Instant now) {
  switch (attempt) {
    case Attempt::kAnswered: return replicas.succeeded(request.slot, request.breaker_period, now);
    case Attempt::kAbandoned: return replicas.undecided(request.slot, request.breaker_period, now);
    case Attempt::kBusy: return replicas.busy(request.slot, request.breaker_period, now);
    case Attempt::kUnreached: return replicas.faulted(request.slot, request.breaker_period, now, false);
    case Attempt::kFaulted: return replicas.faulted(request.slot, request.breaker_period, now);
  }
}

}  // namespace

Dispatcher::Dispatcher(DispatchOptions options, std::unique_ptr<LedgerSink> sink, core::Instant now,
                       core::Duration unix_now)
    : options_(std::move(options)),
      admission_(admission_limits(options_), now),
      replicas_(options_),
      router_(options_, replicas_),
      ledger_(replicas_, std::move(sink), now, unix_now),
      feed_(options_),
      deferral_(options_, counters_.deferral) {
  set_tenants(now);
  restore_budgets(now);
}

void Dispatcher::restore_budgets(core::Instant now) {
  const core::Duration longest = longest_refill_time(options_);
  if (longest == core::Duration{}) return;
  const core::Instant since = now - 2 * longest;
  admission_.restore(ledger_.past_charges(options_, since, now), since);
}

void Dispatcher::reconfigure(const ReloadableOptions& options, core::Instant now) {
  PENSTOCK_ASSERT(options.tenants.size() >= options_.tenants.size(), "tenants are numbered once");
  static_cast<ReloadableOptions&>(options_) = options;
  admission_.set_classes(admission_limits(options_).classes, now);
  set_tenants(now);
  replicas_.options_changed();
  feed_.options_changed();
  room_changed_ = true;
}

void Dispatcher::set_tenants(core::Instant now) {
  for (std::uint32_t number = 0; number < options_.tenants.size(); ++number)
    admission_.set_tenant(number, limits_of(options_.tenants[number]), now);
}

Dispatcher::~Dispatcher() { ledger_.write_open(requests_, core::kNever); }

// ---- the life of a request ------------------------------------------------------------------------------------------

ArrivalResult Dispatcher::arrive(const RequestInfo& received, GrantListener& listener, core::Instant now) {
  const auto model = received.model_number ? received.model_number : replicas_.model_number(received.model);
  const Tenant& tenant = options_.tenants[received.tenant];
  const TokenCaps caps = model ? tighter(tenant.caps, replicas_.model(*model).caps) : tenant.caps;
  RequestInfo info = capped(received, caps);
  auto estimate = admission_.estimator().estimate(estimator_request(info, tenant.name, caps));
  if (info.expected_output_tokens > 0) estimate.output_tokens = info.expected_output_tokens;
  const RequestCheck check{tenant, replicas_.context_tokens_of(model), models_complete_,
                           model ? replicas_.model(*model).over_context : OverContext::kReject, caps.prompt_tokens};
  ArrivalResult result = check.result(info, estimate);
  if (result.refusal) result.refusal = refuse(info, *std::move(result.refusal));
  if (result.refusal || result.count_prompt || result.prompt_excess) return result;
  ActiveRequest& request = open(info, *model, listener, estimate);
  if (tenant.over_budget == OverBudget::kBatch && info.traffic_class == admission::Class::kInteractive &&
      is_over_limits(admission_.tenant(info.tenant, now), request)) {
    info.traffic_class = admission::Class::kBatch;
    info.moved_to_batch = true;
    if (info.expected_output_tokens == 0)
      estimate.output_tokens = admission_.estimator().expected_output(estimator_request(info, tenant.name, caps));
    classify(request, info, estimate, options_, replicas_, router_, admission_);
  }
  result.pool = request.pool;
  result.moved_to_batch = request.moved_to_batch;
  result.expected_output_tokens = request.estimate.output_tokens;
  std::optional<RequestRouter::Choice> choice;
  admission::Arrival arrival{
      request.ticket,        request.tenant,   queue_number(options_.pools, request.meters, request.pool),
      request.traffic_class, request.estimate, now};
  arrival.claim = request.claim;
  arrival.no_replica = !router_.has_replica(request);
  deferral_.defer(request, info, arrival);
  const admission::Answer answer = admission_.arrive(arrival, [&](Ticket) {
    choice = router_.choose(request, now);
    return choice ? deferral_.verdict(request, *choice, router_, now) : admission::Verdict::kWait;
  });
  result.completion_window = request.completion_window;
  // Planners count a deferred request when it arrives, and its times from when it may go.
  result.is_work = answer.deferred || !answer.own_limit;
  if (result.is_work) feed_.arrived(request, request.received_at);
  counters_.overload.add(request.tenant, request.traffic_class, answer);
  switch (answer.decision) {
    case admission::Decision::kAdmit:
      result.ticket = request.ticket;
      deferral_.sent(request);
      grant(request, now);
      result.grant = dispatch(request, *choice, now);
      return result;
    case admission::Decision::kQueue:
      result.ticket = request.ticket;
      if (answer.deferred) deferral_.waits();
      if (request.moved_to_batch) counters_.move_to_batch(request.tenant);
      // The next tick() finds out whether others give way to it.
      room_changed_ = room_changed_ || admission_.drops();
      return result;
    default:
      result.refusal = refuse(info, refusal_of(answer, info.model, replicas_.serves(*model)));
      result.refusal->rate_limits = admission_.rate_limits(request.tenant, now);
      feed_.ended(request, ledger::Outcome::kRefused, now);
      requests_.remove(request);
      return result;
  }
}

ActiveRequest& Dispatcher::open(const RequestInfo& info, std::uint32_t model, GrantListener& listener,
                                const admission::TokenEstimate& estimate) {
  ActiveRequest& request = requests_.add();
  describe(request, info, estimate);
  request.entry.tenant = options_.tenants[info.tenant].name;
  request.listener = &listener;
  request.model = model;
  request.meters = feed_.meters_of(model, info.model);
  request.estimate = estimate;
  note_bounds(request, info, replicas_.context_tokens(model));
  if (const std::uint64_t salt = replicas_.key_salt(model); salt != 0) core::salt_keys(request.keys, salt);
  classify(request, info, estimate, options_, replicas_, router_, admission_);
  return request;
}

void Dispatcher::grant(ActiveRequest& request, core::Instant now) {
  request.granted = true;
  request.granted_at = now;
  ++counters_.granted;
  retry_budget_.granted(now);
  ledger_.open(request, now);
}

Grant Dispatcher::dispatch(ActiveRequest& request, const RequestRouter::Choice& choice, core::Instant now) {
  const std::uint64_t waiting =
      admission_.waiting_tokens(queue_number(options_.pools, request.meters, request.pool), request.traffic_class);
  Grant made = router_.dispatch(request, choice, waiting, now);
  made.due_at = request.due_at;
  made.moved_to_batch = request.moved_to_batch;
  made.rate_limits = admission_.rate_limits(request.tenant, now);
  if (request.attempts == 1) counters_.sent(request, made);
  return made;
}

void Dispatcher::attempt_ended(Ticket ticket, Attempt attempt, core::Instant now) {
  ActiveRequest* request = requests_.find(ticket);
  if (request == nullptr || request->slot == kNoSlot) return;
  report_attempt(replicas_, *request, attempt, now);
  if (attempt == Attempt::kAnswered || attempt == Attempt::kAbandoned) return;
  if (attempt == Attempt::kFaulted) counters_.discarded_prompt_tokens += request->estimate.prompt_tokens;
  request->failed_slots.push_back(request->slot);
  router_.leave(*request);
  room_changed_ = true;
}

bool Dispatcher::may_retry(Ticket ticket, core::Instant now) {
  const ActiveRequest* request = requests_.find(ticket);
  return request != nullptr && has_retry_left(*request, options_, retry_budget_, now) &&
         has_other_replica(*request, replicas_);
}

std::optional<Grant> Dispatcher::route_again(Ticket ticket, core::Instant now) {
  ActiveRequest* request = requests_.find(ticket);
  if (request == nullptr || !has_retry_left(*request, options_, retry_budget_, now)) return std::nullopt;
  router_.leave(*request);
  // A second leg is not repeated alone, because its KV may be lost with the failed replica.
  request->decodes_only = false;
  const auto choice = router_.choose(*request, now);
  if (!choice) return std::nullopt;
  ++counters_.retried;
  retry_budget_.retried(now);
  return dispatch(*request, *choice, now);
}

void Dispatcher::prefilled(Ticket ticket, core::Instant now) {
  ActiveRequest* request = requests_.find(ticket);
  if (request == nullptr || request->slot == kNoSlot || request->decodes_only) return;
  router_.first_token(*request, now);
  router_.leave_prefill(*request, requests_, now);
  request->decodes_only = true;
  room_changed_ = true;
}

std::optional<Grant> Dispatcher::route_decode(Ticket ticket, core::Instant now) {
  prefilled(ticket, now);
  ActiveRequest* request = requests_.find(ticket);
  if (request == nullptr || !request->decodes_only || request->slot != kNoSlot) return std::nullopt;
  const auto choice = router_.choose(*request, now);
  if (!choice) return std::nullopt;
  return dispatch(*request, *choice, now);
}

void Dispatcher::answered(Ticket ticket, core::Instant now) {
  ActiveRequest* request = requests_.find(ticket);
  if (request == nullptr || request->answered) return;
  if (request->slot == kNoSlot && !request->decodes_only) return;
  router_.first_token(*request, now);
  router_.release_kv(*request);
  request->answered = true;
  request->answered_at = now;
  // Peers' routers choose decode replicas by the prompt, too.
  if (options_.strategy == routing::Strategy::kLive) requests_.release_keys(*request);
  feed_.first_token(*request, now);
  if (!request->prefilled) deferral_.first_token(*request, now);
  room_changed_ = true;
}

void Dispatcher::report_progress(std::span<const Progress> streams, core::Instant now) {
  for (const Progress& stream : streams)
    if (ActiveRequest* request = requests_.find(stream.ticket); request != nullptr && request->granted) {
      ledger_.grow(*request, stream);
      if (request->slot != kNoSlot) replicas_.answered(request->slot, now);
    }
}

void Dispatcher::ended(Ticket ticket, const RequestOutcome& outcome, core::Instant now) {
  ActiveRequest* request = requests_.find(ticket);
  if (request == nullptr) return;
  if (request->granted) {
    router_.correct_cache(*request, outcome);
    request->computes = request->slot != kNoSlot || request->decodes_only;
    if (request->slot != kNoSlot)
      report_attempt(replicas_, *request, outcome.attempt.value_or(Attempt::kAbandoned), now);
    const double concurrent = router_.concurrent(*request);
    router_.leave(*request);
    settle(*request, outcome, now);
    deferral_.ended(*request, outcome.outcome, concurrent, now);
    requests_.remove(*request);
  } else {
    static_cast<void>(admission_.cancelled(ticket));
    drop(*request, outcome.outcome, now);
  }
  pump(now);
}

void Dispatcher::settle(ActiveRequest& request, const RequestOutcome& outcome, core::Instant now) {
  ledger_.close(request, outcome, now);
  counters_.step_tokens += request.step_tokens;
  const ledger::Entry& entry = request.entry;
  if (entry.measured)
    admission_.estimator().learn(estimator_request(request), static_cast<std::uint32_t>(entry.prompt_tokens),
                                 static_cast<std::uint32_t>(entry.output_tokens));
  admission_.ended(request.ticket, request.entry.prompt_tokens + request.entry.output_tokens, now);
  feed_.ended(request, outcome.outcome, now, outcome.client_wait);
}

Refusal Dispatcher::refuse(const RequestInfo& info, Refusal refusal) {
  ++counters_.refused;
  count(refusal);
  ledger::Entry entry;
  entry.tenant = options_.tenants[info.tenant].name;
  // Names that clients make up must not add entries to the sums.
  entry.model = replicas_.model_number(info.model) ? info.model : std::string_view{"unknown"};
  ledger_.refuse(entry);
  return refusal;
}

void Dispatcher::drop(ActiveRequest& request, ledger::Outcome outcome, core::Instant now) {
  ++counters_.refused;
  ledger_.refuse(request.entry);  // The ledger's term for requests that were never admitted.
  feed_.ended(request, outcome, now);
  requests_.remove(request);
}

void Dispatcher::pump(core::Instant now) {
  room_changed_ = false;
  if (admission_.waiting() + admission_.deferred() == 0) return;
  for (const admission::Refused& late : admission_.expired(now)) refuse_waiting(late, now);
  for (const Ticket ticket : admission_.make_due(now)) {
    ActiveRequest& request = *requests_.find(ticket);
    feed_.released(request, now);
    if (const auto refused = deferral_.make_due(request, admission_, now)) refuse_waiting(*refused, now);
  }
  const auto verdict_of = [&](std::uint64_t ticket) {
    ActiveRequest* request = requests_.find(ticket);
    PENSTOCK_ASSERT(request != nullptr, "a request that waits is in hand");
    request->overload = admission_.overload_action(request->tenant, request->traffic_class);
    const auto choice = router_.choose(*request, now);
    if (!choice) return admission::Verdict::kWait;
    const admission::Verdict made = deferral_.verdict(*request, *choice, router_, now);
    // Its tokens count before the next request is checked.
    if (made == admission::Verdict::kAdmit) request->grant = dispatch(*request, *choice, now);
    return made;
  };
  for (bool more = true; more;) {
    const admission::Next next = admission_.next(now, verdict_of);
    more = next.more && !next.admitted.empty();
    for (const admission::Admitted& admitted : next.admitted) {
      ActiveRequest* request = requests_.find(admitted.ticket);
      if (request->deferred) feed_.released(*request, now);
      deferral_.sent(*request);
      feed_.arrived(*request, now);
      grant(*request, now);
      request->grant.rate_limits = admission_.rate_limits(request->tenant, now);  // Its tokens are taken now.
      request->listener->deliver(request->ticket, request->grant);
    }
  }
  for (const admission::Refused& outranked : admission_.dropped(now)) refuse_waiting(outranked, now);
}

void Dispatcher::refuse_waiting(const admission::Refused& refused, core::Instant now) {
  ActiveRequest* request = requests_.find(refused.ticket);
  PENSTOCK_ASSERT(request != nullptr, "a request that waits is in hand");
  const Refusal refusal = refusal_of(refused.answer, request->entry.model, replicas_.serves(request->model));
  count(refusal);
  counters_.overload.add(request->tenant, request->traffic_class, refused.answer);
  if (refused.due) deferral_.missed();
  if (!refused.answer.own_limit) feed_.arrived(*request, request->received_at);
  request->listener->deliver(refused.ticket, refusal);
  drop(*request, ledger::Outcome::kRefused, now);
}

// ---- time and replicas ----------------------------------------------------------------------------------------------

void Dispatcher::tick(core::Instant now) {
  replicas_.tick(now);
  router_.assume_first_tokens(requests_, now);
  router_.release_late_kv(requests_, now);
  pump(now);
  ledger_.write_open(requests_, now);
}

core::Instant Dispatcher::next_wake(core::Instant now) const {
  const core::Instant earliest =
      std::min({replicas_.next_wake(), router_.next_assumed(), router_.next_kv_release(), ledger_.next_write()});
  if (admission_.waiting() + admission_.deferred() == 0) return earliest;
  // A load report that expires may also free capacity.
  return room_changed_ ? now : std::min({earliest, admission_.wake_at(now), now + options_.picker.load_report_age});
}

void Dispatcher::set_replicas(const std::vector<ReplicaSpec>& specs, core::Instant now) {
  replicas_.set(specs, now);
  pump(now);
}

void Dispatcher::set_health(std::uint32_t slot, ReplicaHealth health, core::Instant now) {
  replicas_.set_health(slot, health, now);
  room_changed_ = true;
}

void Dispatcher::report_load(std::uint32_t slot, const routing::ReportedLoad& load) {
  replicas_.report_load(slot, load);
  room_changed_ = true;
}

void Dispatcher::kv_event(std::uint32_t slot, KvChange change, std::span<const std::uint64_t> keys) {
  replicas_.kv_event(slot, change, keys);
}

std::vector<PrefixHolder> Dispatcher::idle_holders(std::string_view model, std::span<const std::uint64_t> keys,
                                                   core::Instant now) {
  const auto number = replicas_.model_number(model);
  if (!number) return {};
  return replicas_.idle_holders(*number, salted_keys(*number, keys), now);
}

void Dispatcher::pinged(std::uint32_t slot, std::string_view model, std::span<const std::uint64_t> keys,
                        core::Instant now) {
  if (const auto number = replicas_.model_number(model)) replicas_.pinged(slot, salted_keys(*number, keys), now);
}

std::vector<std::uint64_t> Dispatcher::salted_keys(std::uint32_t model, std::span<const std::uint64_t> keys) const {
  std::vector<std::uint64_t> salted{keys.begin(), keys.end()};
  if (const std::uint64_t salt = replicas_.key_salt(model); salt != 0) core::salt_keys(salted, salt);
  return salted;
}

}  // namespace penstock::dispatch
