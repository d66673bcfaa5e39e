#include "gateway/desk.h"

#include <algorithm>
#include <utility>

#include "gateway/desk_state.h"
#include "net/loop.h"

namespace penstock::gateway {

Desk::Desk(const GatewayOptions& options, std::unique_ptr<LedgerSink> sink)
    : state_(std::make_unique<State>(options, std::move(sink), net::Loop::read_clock())) {}
// What is open then is found by the next start.
Desk::~Desk() { state_->open_entries(core::kNever); }

Answer Desk::arrive(const Facts& facts, Mailbox& mailbox, core::Instant now) {
  const std::scoped_lock lock{mutex_};
  State& state = *state_;
  const admission::TokenEstimate estimate = state.gate.estimator().estimate(
      {facts.model, state.tenant_names[facts.tenant], admission::to_string(facts.traffic_class), facts.text_bytes,
       facts.prompt_tokens_given, facts.max_tokens});
  Answer answer;
  if (auto objection = state.objection(facts, estimate)) {
    answer.refusal = state.refuse(facts, *std::move(objection));
    return answer;
  }
  Flight& flight = state.open(facts, mailbox, estimate);
  const auto option = state.choose(flight, now);
  const admission::Verdict verdict = option ? state.judge(flight, *option, now) : admission::Verdict::kWait;
  admission::Arrival arrival;
  arrival.ticket = flight.ticket;
  arrival.tenant = flight.tenant;
  arrival.lane = flight.lane;
  arrival.traffic_class = flight.traffic_class;
  arrival.estimate = estimate;
  arrival.now = now;
  const admission::Answer said = state.gate.arrive(arrival, verdict);
  if (!said.own_limit) state.tell_arrival(flight, flight.received_at);
  switch (said.decision) {
    case admission::Decision::kAdmit:
      answer.ticket = flight.ticket;
      state.grant(flight, now);
      answer.grant = state.dispatch(flight, *option, now);
      return answer;
    case admission::Decision::kQueue: answer.ticket = flight.ticket; return answer;
    default:
      answer.refusal = state.refuse(facts, state.refusal_of(said, facts.model));
      state.tell_end(flight, ledger::Outcome::kRefused, now);
      state.flights.remove(flight);
      return answer;
  }
}

void Desk::attempt_ended(Ticket ticket, Attempt attempt, core::Instant now) {
  const std::scoped_lock lock{mutex_};
  Flight* flight = state_->flights.find(ticket);
  if (flight == nullptr || flight->slot == kNoSlot) return;
  ReplicaSet& replicas = state_->replicas;
  switch (attempt) {
    case Attempt::kAnswered: return replicas.succeeded(flight->slot, now);
    case Attempt::kAbandoned: return replicas.undecided(flight->slot, now);
    case Attempt::kBusy: replicas.busy(flight->slot, now); break;
    case Attempt::kFaulted: replicas.faulted(flight->slot, now); break;
  }
  flight->failed_slots.push_back(flight->slot);
  state_->leave_slot(*flight);
}

std::optional<Grant> Desk::route_again(Ticket ticket, core::Instant now) {
  const std::scoped_lock lock{mutex_};
  State& state = *state_;
  Flight* flight = state.flights.find(ticket);
  if (flight == nullptr || flight->attempts > state.options.retries) return std::nullopt;
  // A few retries are always allowed, so that a quiet gateway has some, too.
  constexpr double kAlways = 10.0;
  if (static_cast<double>(state.retried) >= kAlways + state.options.retry_share * static_cast<double>(state.granted))
    return std::nullopt;
  state.leave_slot(*flight);
  // A second leg is not repeated alone: its KV may be gone with the replica that failed.
  flight->decodes_only = false;
  const auto option = state.choose(*flight, now);
  if (!option) return std::nullopt;
  ++state.retried;
  return state.dispatch(*flight, *option, now);
}

std::optional<Grant> Desk::route_decode(Ticket ticket, core::Instant now) {
  const std::scoped_lock lock{mutex_};
  State& state = *state_;
  Flight* flight = state.flights.find(ticket);
  if (flight == nullptr || flight->slot == kNoSlot) return std::nullopt;
  const std::uint32_t group = state.replicas.replica(flight->slot).group;
  if (!flight->slot_answered)
    state.replicas.selector(group).first_token(flight->slot, flight->uncached_tokens, now - flight->dispatched_at, now);
  flight->slot_answered = true;
  state.leave_slot(*flight);
  flight->decodes_only = true;
  const auto option = state.choose(*flight, now);
  if (!option) {
    flight->decodes_only = false;
    return std::nullopt;
  }
  return state.dispatch(*flight, *option, now);
}

void Desk::answered(Ticket ticket, core::Instant now) {
  const std::scoped_lock lock{mutex_};
  Flight* flight = state_->flights.find(ticket);
  if (flight == nullptr || flight->slot == kNoSlot || flight->answered) return;
  flight->answered = flight->slot_answered = true;
  flight->answered_at = now;
  std::vector<std::uint64_t>{}.swap(flight->keys);
  const std::uint32_t group = state_->replicas.replica(flight->slot).group;
  if (flight->decodes_only)
    // How long it took says something of the KV's way, nothing of a prefill.
    state_->replicas.selector(group).assume_first_token(flight->slot, flight->uncached_tokens, flight->dispatched_at,
                                                        now);
  else
    state_->replicas.selector(group).first_token(flight->slot, flight->uncached_tokens, now - flight->dispatched_at,
                                                 now);
  state_->note_first_token(*flight, now);
}

void Desk::ended(Ticket ticket, const Ending& ending, core::Instant now) {
  const std::scoped_lock lock{mutex_};
  Flight* flight = state_->flights.find(ticket);
  if (flight == nullptr) return;
  if (!flight->granted) {
    static_cast<void>(state_->gate.cancelled(ticket));
    state_->drop(*flight, ending.outcome, now);
  } else {
    state_->correct_cache(*flight, ending);
    state_->leave_slot(*flight);
    state_->settle(*flight, ending, now);
    state_->flights.remove(*flight);
  }
  state_->pump(now);
}

void Desk::tick(core::Instant now) {
  const std::scoped_lock lock{mutex_};
  state_->replicas.tick(now);
  state_->assume_first_tokens(now);
  state_->pump(now);
  state_->open_entries(now);
}

void Desk::set_replicas(const std::vector<ReplicaSpec>& specs, core::Instant now) {
  const std::scoped_lock lock{mutex_};
  state_->replicas.set(specs, now);
  state_->pump(now);
}

void Desk::set_health(std::string_view id, bool healthy, core::Instant now) {
  const std::scoped_lock lock{mutex_};
  if (const auto slot = state_->replicas.slot_of(id)) state_->replicas.set_health(*slot, healthy, now);
}

void Desk::heard(std::string_view id, const routing::Heard& heard) {
  const std::scoped_lock lock{mutex_};
  if (const auto slot = state_->replicas.slot_of(id))
    state_->replicas.selector(state_->replicas.replica(*slot).group).heard(*slot, heard);
}

void Desk::kv_event(std::string_view id, KvChange change, std::span<const std::uint64_t> keys) {
  const std::scoped_lock lock{mutex_};
  const auto slot = state_->replicas.slot_of(id);
  if (!slot) return;
  routing::Selector& selector = state_->replicas.selector(state_->replicas.replica(*slot).group);
  switch (change) {
    case KvChange::kStored:
      for (const std::uint64_t key : keys) selector.stored(*slot, key);
      break;
    case KvChange::kRemoved:
      for (const std::uint64_t key : keys) selector.removed(*slot, key);
      break;
    case KvChange::kCleared: selector.cleared(*slot); break;
    case KvChange::kLost: selector.events_lost(*slot); break;
  }
}

TrafficLog::Page Desk::traffic(std::uint64_t after, std::size_t events_max) const {
  const std::scoped_lock lock{mutex_};
  return state_->traffic.after(after, events_max);
}

std::vector<std::string> Desk::models() const {
  const std::scoped_lock lock{mutex_};
  return state_->replicas.models();
}

std::vector<PrefixHolder> Desk::idle_holders(const PrefixText& prefix, core::Instant now) const {
  const std::scoped_lock lock{mutex_};
  std::vector<PrefixHolder> found;
  for (const signals::Role role : {signals::Role::kAggregated, signals::Role::kPrefill}) {
    const auto group = state_->replicas.group_of(prefix.model, role);
    if (!group) continue;
    for (const routing::Selector::Holder& holder : state_->replicas.selector(*group).holders(prefix.keys, now)) {
      const routing::Selector::Load load = state_->replicas.load(holder.slot, now);
      if (load.eligible && load.prefill_tokens == 0)
        found.push_back({state_->replicas.replica(holder.slot).spec.id, holder.slot, holder.sent_at});
    }
  }
  return found;
}

void Desk::pinged(std::uint32_t slot, const PrefixText& prefix, core::Instant now) {
  const std::scoped_lock lock{mutex_};
  if (slot < state_->replicas.slots())
    state_->replicas.selector(state_->replicas.replica(slot).group).pinged(slot, prefix.keys, now);
}

PrefixShelf* Desk::hot_prefixes() { return state_->shelf ? &*state_->shelf : nullptr; }

std::vector<ReplicaStatus> Desk::replicas(core::Instant now) const {
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

Overview Desk::overview(core::Instant now) const {
  const std::scoped_lock lock{mutex_};
  const State& state = *state_;
  Overview seen;
  seen.now = now;
  seen.replicas = state.statuses(now);
  for (std::uint32_t tenant = 0; tenant < state.tenant_names.size(); ++tenant) {
    const admission::Gate::Tenant figures = state.gate.tenant(tenant, now);
    const Tenant& said = state.options.tenants[tenant];
    const double available = said.budget.limited() ? std::max(0.0, figures.available_tokens) : -1.0;
    seen.tenants.push_back({state.tenant_names[tenant], available, figures.running, figures.waiting});
    seen.tenants.back().saturation = tenant_saturation(said, available, figures.running);
    seen.running += figures.running;
  }
  for (std::uint32_t lane = 0; lane < state.lanes.size(); ++lane) {
    const State::Lane& model = state.lanes[lane];
    const admission::Gate::Crowd crowd = state.gate.waiting_for_room(lane);
    seen.models.push_back({model.name, model.segments.read(now, state.tenant_names), model.ttft_ms, model.itl_ms,
                           crowd.requests, crowd.oldest});
    seen.waiting_tokens += state.gate.waiting_tokens(lane);
  }
  seen.sums.assign(state.balance.sums().begin(), state.balance.sums().end());
  seen.waiting_interactive = static_cast<std::uint32_t>(state.gate.waiting(admission::Class::kInteractive));
  seen.waiting_batch = static_cast<std::uint32_t>(state.gate.waiting(admission::Class::kBatch));
  seen.oldest_waiting = state.gate.oldest();
  seen.granted_total = state.granted;
  seen.refused_total = state.refused;
  seen.retried_total = state.retried;
  seen.clamped_total = state.clamped;
  seen.refusals.assign(state.refusals.begin(), state.refusals.end());
  seen.prompt_error = state_->gate.estimator().prompt_error();
  seen.output_error = state_->gate.estimator().output_error();
  return seen;
}

}  // namespace penstock::gateway
