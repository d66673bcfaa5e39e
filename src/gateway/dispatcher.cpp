#include "gateway/dispatcher.h"

#include <algorithm>
#include <utility>

#include "gateway/dispatcher_state.h"
#include "net/loop.h"

namespace penstock::gateway {

Dispatcher::Dispatcher(const GatewayOptions& options, std::unique_ptr<LedgerSink> sink)
    : state_(std::make_unique<State>(options, std::move(sink), net::Loop::read_clock())) {}
// What is open then is found by the next start.
Dispatcher::~Dispatcher() { state_->open_entries(core::kNever); }

Answer Dispatcher::arrive(const RequestInfo& info, GrantListener& listener, core::Instant now) {
  const std::scoped_lock lock{mutex_};
  State& state = *state_;
  const admission::TokenEstimate estimate = state.controller.estimator().estimate(
      {info.model, state.tenant_names[info.tenant], admission::to_string(info.traffic_class), info.text_bytes,
       info.prompt_tokens_given, info.max_tokens});
  Answer answer;
  if (auto objection = state.objection(info, estimate)) {
    answer.refusal = state.refuse(info, *std::move(objection));
    return answer;
  }
  ActiveRequest& request = state.open(info, listener, estimate);
  const auto option = state.choose(request, now);
  const admission::Verdict verdict = option ? state.judge(request, *option, now) : admission::Verdict::kWait;
  admission::Arrival arrival;
  arrival.ticket = request.ticket;
  arrival.tenant = request.tenant;
  arrival.model = request.lane;
  arrival.traffic_class = request.traffic_class;
  arrival.estimate = estimate;
  arrival.now = now;
  const admission::Answer said = state.controller.arrive(arrival, verdict);
  if (!said.own_limit) state.tell_arrival(request, request.received_at);
  switch (said.decision) {
    case admission::Decision::kAdmit:
      answer.ticket = request.ticket;
      state.grant(request, now);
      answer.grant = state.dispatch(request, *option, now);
      return answer;
    case admission::Decision::kQueue: answer.ticket = request.ticket; return answer;
    default:
      answer.refusal = state.refuse(info, state.refusal_of(said, info.model));
      state.tell_end(request, ledger::Outcome::kRefused, now);
      state.active_requests.remove(request);
      return answer;
  }
}

void Dispatcher::attempt_ended(Ticket ticket, Attempt attempt, core::Instant now) {
  const std::scoped_lock lock{mutex_};
  ActiveRequest* request = state_->active_requests.find(ticket);
  if (request == nullptr || request->slot == kNoSlot) return;
  ReplicaSet& replicas = state_->replicas;
  switch (attempt) {
    case Attempt::kAnswered: return replicas.succeeded(request->slot, now);
    case Attempt::kAbandoned: return replicas.undecided(request->slot, now);
    case Attempt::kBusy: replicas.busy(request->slot, now); break;
    case Attempt::kFaulted: replicas.faulted(request->slot, now); break;
  }
  request->failed_slots.push_back(request->slot);
  state_->leave_slot(*request);
}

std::optional<Grant> Dispatcher::route_again(Ticket ticket, core::Instant now) {
  const std::scoped_lock lock{mutex_};
  State& state = *state_;
  ActiveRequest* request = state.active_requests.find(ticket);
  if (request == nullptr || request->attempts > state.options.retries) return std::nullopt;
  // A few retries are always allowed, so that a quiet gateway has some, too.
  constexpr double kAlways = 10.0;
  if (static_cast<double>(state.retried) >= kAlways + state.options.retry_share * static_cast<double>(state.granted))
    return std::nullopt;
  state.leave_slot(*request);
  // A second leg is not repeated alone: its KV may be gone with the replica that failed.
  request->decodes_only = false;
  const auto option = state.choose(*request, now);
  if (!option) return std::nullopt;
  ++state.retried;
  return state.dispatch(*request, *option, now);
}

std::optional<Grant> Dispatcher::route_decode(Ticket ticket, core::Instant now) {
  const std::scoped_lock lock{mutex_};
  State& state = *state_;
  ActiveRequest* request = state.active_requests.find(ticket);
  if (request == nullptr || request->slot == kNoSlot) return std::nullopt;
  const std::uint32_t group = state.replicas.replica(request->slot).group;
  if (!request->slot_answered)
    state.replicas.picker(group).first_token(request->slot, request->uncached_tokens, now - request->dispatched_at,
                                             now);
  request->slot_answered = true;
  state.leave_slot(*request);
  request->decodes_only = true;
  const auto option = state.choose(*request, now);
  if (!option) {
    request->decodes_only = false;
    return std::nullopt;
  }
  return state.dispatch(*request, *option, now);
}

void Dispatcher::answered(Ticket ticket, core::Instant now) {
  const std::scoped_lock lock{mutex_};
  ActiveRequest* request = state_->active_requests.find(ticket);
  if (request == nullptr || request->slot == kNoSlot || request->answered) return;
  request->answered = request->slot_answered = true;
  request->answered_at = now;
  std::vector<std::uint64_t>{}.swap(request->keys);
  const std::uint32_t group = state_->replicas.replica(request->slot).group;
  if (request->decodes_only)
    // How long it took says something of the KV's way, nothing of a prefill.
    state_->replicas.picker(group).assume_first_token(request->slot, request->uncached_tokens, request->dispatched_at,
                                                      now);
  else
    state_->replicas.picker(group).first_token(request->slot, request->uncached_tokens, now - request->dispatched_at,
                                               now);
  state_->note_first_token(*request, now);
}

void Dispatcher::ended(Ticket ticket, const RequestOutcome& ending, core::Instant now) {
  const std::scoped_lock lock{mutex_};
  ActiveRequest* request = state_->active_requests.find(ticket);
  if (request == nullptr) return;
  if (!request->granted) {
    static_cast<void>(state_->controller.cancelled(ticket));
    state_->drop(*request, ending.outcome, now);
  } else {
    state_->correct_cache(*request, ending);
    state_->leave_slot(*request);
    state_->settle(*request, ending, now);
    state_->active_requests.remove(*request);
  }
  state_->pump(now);
}

void Dispatcher::tick(core::Instant now) {
  const std::scoped_lock lock{mutex_};
  state_->replicas.tick(now);
  state_->assume_first_tokens(now);
  state_->pump(now);
  state_->open_entries(now);
}

void Dispatcher::set_replicas(const std::vector<ReplicaSpec>& specs, core::Instant now) {
  const std::scoped_lock lock{mutex_};
  state_->replicas.set(specs, now);
  state_->pump(now);
}

void Dispatcher::set_health(std::string_view id, bool healthy, core::Instant now) {
  const std::scoped_lock lock{mutex_};
  if (const auto slot = state_->replicas.slot_of(id)) state_->replicas.set_health(*slot, healthy, now);
}

void Dispatcher::report_load(std::string_view id, const routing::ReportedLoad& load) {
  const std::scoped_lock lock{mutex_};
  if (const auto slot = state_->replicas.slot_of(id))
    state_->replicas.picker(state_->replicas.replica(*slot).group).report_load(*slot, load);
}

void Dispatcher::kv_event(std::string_view id, KvChange change, std::span<const std::uint64_t> keys) {
  const std::scoped_lock lock{mutex_};
  const auto slot = state_->replicas.slot_of(id);
  if (!slot) return;
  routing::EndpointPicker& picker = state_->replicas.picker(state_->replicas.replica(*slot).group);
  switch (change) {
    case KvChange::kStored:
      for (const std::uint64_t key : keys) picker.stored(*slot, key);
      break;
    case KvChange::kRemoved:
      for (const std::uint64_t key : keys) picker.removed(*slot, key);
      break;
    case KvChange::kCleared: picker.cleared(*slot); break;
    case KvChange::kLost: picker.events_lost(*slot); break;
  }
}

TrafficLog::Page Dispatcher::traffic(std::uint64_t after, std::size_t events_max) const {
  const std::scoped_lock lock{mutex_};
  return state_->traffic.after(after, events_max);
}

std::vector<std::string> Dispatcher::models() const {
  const std::scoped_lock lock{mutex_};
  return state_->replicas.models();
}

std::vector<PrefixHolder> Dispatcher::idle_holders(const PrefixText& prefix, core::Instant now) const {
  const std::scoped_lock lock{mutex_};
  std::vector<PrefixHolder> found;
  for (const signals::Role role : {signals::Role::kAggregated, signals::Role::kPrefill}) {
    const auto group = state_->replicas.group_of(prefix.model, role);
    if (!group) continue;
    for (const routing::EndpointPicker::Holder& holder : state_->replicas.picker(*group).holders(prefix.keys, now)) {
      const routing::EndpointPicker::Load load = state_->replicas.load(holder.slot, now);
      if (load.eligible && load.prefill_tokens == 0)
        found.push_back({state_->replicas.replica(holder.slot).spec.id, holder.slot, holder.sent_at});
    }
  }
  return found;
}

void Dispatcher::pinged(std::uint32_t slot, const PrefixText& prefix, core::Instant now) {
  const std::scoped_lock lock{mutex_};
  if (slot < state_->replicas.slots())
    state_->replicas.picker(state_->replicas.replica(slot).group).pinged(slot, prefix.keys, now);
}

HotPrefixCache* Dispatcher::hot_prefixes() { return state_->hot_prefix_cache ? &*state_->hot_prefix_cache : nullptr; }

std::vector<ReplicaStatus> Dispatcher::replicas(core::Instant now) const {
  const std::scoped_lock lock{mutex_};
  return state_->statuses(now);
}

namespace {

std::optional<double> tenant_saturation(const Tenant& tenant, double available_tokens, std::uint32_t running) {
  std::optional<double> most;
  const auto consider = [&](double share) { most = std::clamp(std::max(share, most.value_or(0.0)), 0.0, 1.0); };
  if (tenant.budget.limited()) consider(1.0 - available_tokens / tenant.budget.capacity());
  if (tenant.concurrent > 0) consider(static_cast<double>(running) / static_cast<double>(tenant.concurrent));
  return most;
}

}  // namespace

Overview Dispatcher::overview(core::Instant now) const {
  const std::scoped_lock lock{mutex_};
  const State& state = *state_;
  Overview seen;
  seen.now = now;
  seen.replicas = state.statuses(now);
  for (std::uint32_t tenant = 0; tenant < state.tenant_names.size(); ++tenant) {
    const admission::AdmissionController::Tenant figures = state.controller.tenant(tenant, now);
    const Tenant& said = state.options.tenants[tenant];
    const double available = said.budget.limited() ? std::max(0.0, figures.available_tokens) : -1.0;
    seen.tenants.push_back({state.tenant_names[tenant], available, figures.running, figures.waiting});
    seen.tenants.back().saturation = tenant_saturation(said, available, figures.running);
    seen.running += figures.running;
  }
  for (std::uint32_t lane = 0; lane < state.lanes.size(); ++lane) {
    const State::Lane& model = state.lanes[lane];
    const admission::AdmissionController::QueueDepth crowd = state.controller.waiting_for_room(lane);
    seen.models.push_back({model.name, model.segments.read(now, state.tenant_names), model.ttft_ms, model.itl_ms,
                           crowd.requests, crowd.oldest});
    seen.waiting_tokens += state.controller.waiting_tokens(lane);
  }
  seen.sums.assign(state.balance.sums().begin(), state.balance.sums().end());
  seen.waiting_interactive = static_cast<std::uint32_t>(state.controller.waiting(admission::Class::kInteractive));
  seen.waiting_batch = static_cast<std::uint32_t>(state.controller.waiting(admission::Class::kBatch));
  seen.oldest_waiting = state.controller.oldest();
  seen.granted_total = state.granted;
  seen.refused_total = state.refused;
  seen.retried_total = state.retried;
  seen.clamped_total = state.clamped;
  seen.refusals.assign(state.refusals.begin(), state.refusals.end());
  seen.prompt_error = state_->controller.estimator().prompt_error();
  seen.output_error = state_->controller.estimator().output_error();
  return seen;
}

}  // namespace penstock::gateway
