#include "admission/admission_controller.h"

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include "admission/controller_state.h"
#include "core/enum_names.h"
#include "core/result.h"

namespace penstock::admission {
namespace {

// `reserved`: tokens of running requests. They took nothing from a budget without a limit, but return what they do not
// use.
void change_budget(TokenBudget& budget, const BudgetLimits& limits, std::uint64_t reserved, core::Instant now) {
  const bool was_limited = budget.limits().limited();
  budget.change(limits, now);
  if (!was_limited) budget.settle(0, reserved, now);
}

}  // namespace

const char* to_string(Decision decision) {
  return core::name_of<Decision::kRefuseDropped>(
      decision, {"admit", "queue", "refuse_budget", "refuse_concurrency", "refuse_queue_full", "refuse_pressure",
                 "refuse_queue_time", "refuse_dropped"});
}

AdmissionController::AdmissionController(const AdmissionLimits& limits, core::Instant now)
    : state_(std::make_unique<ControllerState>(limits, now)) {}
AdmissionController::~AdmissionController() = default;
AdmissionController::AdmissionController(AdmissionController&&) noexcept = default;
AdmissionController& AdmissionController::operator=(AdmissionController&&) noexcept = default;

void AdmissionController::set_tenant(std::uint32_t tenant, const TenantLimits& limits, core::Instant now) {
  PENSTOCK_ASSERT(tenant <= state_->tenants.size(), "tenants are numbered without gaps");
  const auto one_if_drops = [](const TenantLimits& of) { return of.overload == OverloadAction::kDrop ? 1U : 0U; };
  state_->tenants_that_drop += one_if_drops(limits);
  if (tenant < state_->tenants.size()) state_->tenants_that_drop -= one_if_drops(state_->tenants[tenant].limits);
  state_->tenant_numbers[limits.name] = tenant;
  if (tenant == state_->tenants.size()) {
    state_->tenants.push_back({limits, TokenBudget{limits.budget, now}});
  } else {
    TenantState& known = state_->tenants[tenant];
    known.limits = limits;
    change_budget(known.budget, limits.budget, known.reserved_total - known.settled_total, now);
  }
  for (auto& [number, model] : state_->models) state_->set_weight(model, tenant);
}

void AdmissionController::set_classes(const std::array<ClassLimits, 2>& classes, core::Instant now) {
  state_->limits.classes = classes;
  for (std::size_t i = 0; i < classes.size(); ++i)
    change_budget(state_->class_budgets[i], classes[i].budget, state_->reserved(static_cast<Class>(i)), now);
}

void AdmissionController::restore(std::span<const PastCharge> charges, core::Instant since) {
  PENSTOCK_ASSERT(state_->records.empty(), "levels are restored before the first arrival");
  for (TenantState& tenant : state_->tenants) tenant.budget.drain(since);
  for (TokenBudget& budget : state_->class_budgets) budget.drain(since);
  for (const PastCharge& charge : charges) {
    state_->tenants[charge.tenant].budget.settle(0, charge.tokens, charge.at);
    state_->class_budgets[index_of(charge.traffic_class)].settle(0, charge.tokens, charge.at);
  }
}

double AdmissionController::capacity(std::uint32_t tenant, Class traffic_class) const {
  double least = std::numeric_limits<double>::infinity();
  for (const BudgetLimits& limits :
       {state_->tenants[tenant].limits.budget, state_->limits.classes[index_of(traffic_class)].budget})
    if (limits.limited()) least = std::min(least, limits.capacity());
  return least;
}

Answer AdmissionController::arrive(const Arrival& arrival, const VerdictOf& verdict_of) {
  ControllerState& state = *state_;
  PENSTOCK_ASSERT(arrival.tenant < state.tenants.size(), "tenants are set before their requests arrive");
  PENSTOCK_ASSERT(!state.records.contains(arrival.ticket), "a ticket arrives once");
  if (auto refused = state.refuse_permanently(arrival)) return *refused;

  const ClassLimits& class_limits = state.limits.classes[index_of(arrival.traffic_class)];
  const bool may_wait = state.action(arrival.tenant, arrival.traffic_class) != OverloadAction::kShed;
  const bool defers = arrival.deferred_until.has_value();
  const core::Instant deadline =
      defers ? arrival.deadline : std::min(arrival.deadline, arrival.now + class_limits.wait_most(arrival.no_replica));
  const std::uint64_t tokens = arrival.estimate.total();
  const BudgetClaim claim = arrival.claimed();
  const LimitKind limit = state.own_limit(arrival.tenant, arrival.traffic_class, claim.needed, arrival.now);
  if (auto refused = state.refuse_by_own_limit(arrival, limit, deadline, may_wait)) return *refused;
  if (auto refused = state.refuse_without_precedence(arrival)) return *refused;

  TenantState& tenant = state.tenants[arrival.tenant];
  Record record{arrival.tenant, arrival.model, arrival.traffic_class, tokens, claim.tokens};
  record.limit = limit;
  if (defers) return state.arrive_deferred(arrival, record, verdict_of);
  if (waiting() == 0) state.class_exhausted = {};
  std::optional<LimitKind> earlier;
  // What may not wait yields only to requests that it may not overtake, which was checked above.
  if (limit == LimitKind::kNothing && may_wait) earlier = state.limit_of_earlier_waiter(arrival);
  if (earlier) record.limit = *earlier;
  if (limit == LimitKind::kNothing && !earlier) {
    record.saturated = verdict_of(arrival.ticket) != Verdict::kAdmit;
    if (!record.saturated) {
      state.admit(record, arrival.now);
      state.records.emplace(arrival.ticket, record);
      return {};
    }
    state.queue_of(arrival.model).full_for[{arrival.traffic_class, tenant.limits.tier}] = arrival.now;
  }
  if (!may_wait) return state.refuse_pressure(arrival);
  const Waiting waiting{arrival.ticket, arrival.tenant, arrival.traffic_class, tokens, tenant.limits.tier,
                        arrival.now,    deadline,       claim.needed};
  if (!state.queue_of(arrival.model).queue.push(waiting)) {
    Answer full = state.refuse_full(arrival);
    full.own_limit = record.limit != LimitKind::kNothing;
    return full;
  }
  state.records.emplace(arrival.ticket, record);
  ++tenant.waiting;
  ++tenant.decisions[index_of(Decision::kQueue)];
  return {Decision::kQueue, 0, {}, record.limit != LimitKind::kNothing};
}

Next AdmissionController::next(core::Instant now, const VerdictOf& verdict_of) {
  ControllerState& state = *state_;
  ++state.calls;
  ControllerState::Call call{now, verdict_of, {}, 0, false, {}, {}, nullptr, {}};
  const auto first = state.models.lower_bound(state.first_model);
  for (auto at = first; at != state.models.end(); ++at) state.drain(at->first, at->second, call);
  for (auto at = state.models.begin(); at != first; ++at) state.drain(at->first, at->second, call);
  state.class_exhausted = call.class_exhausted;
  for (auto at = first; at != state.models.end(); ++at) state.drain_deferred(at->first, at->second, call);
  for (auto at = state.models.begin(); at != first; ++at) state.drain_deferred(at->first, at->second, call);
  // The models take turns at being visited first, but one that waits for a class budget keeps its turn.
  if (first != state.models.end()) state.first_model = call.model_of_exhausted_class.value_or(first->first + 1);
  if (state.models.lower_bound(state.first_model) == state.models.end()) state.first_model = 0;
  call.result.more = call.bounded && !call.result.admitted.empty();
  return std::move(call.result);
}

core::Instant AdmissionController::wake_at(core::Instant now) const {
  core::Instant earliest = core::kNever;
  for (auto& [number, model] : state_->models) {
    for (FairQueue* queue : {&model.queue, &model.deferred}) {
      earliest = std::min(earliest, queue->next_deadline());
      const auto none = queue->pop([&](const Waiting& head) {
        const LimitKind limit = state_->own_limit(head, now);
        if (limit == LimitKind::kBudget || limit == LimitKind::kClassBudget)
          earliest = std::min(earliest, state_->affordable_at(head.tenant, head.traffic_class, head.needed, now));
        return VisitResult::kPass;
      });
      PENSTOCK_ASSERT(!none, "a visit takes nothing");
    }
  }
  return earliest;
}

std::vector<Refused> AdmissionController::expired(core::Instant now) {
  std::vector<Refused> refused;
  for (auto& [number, model] : state_->models)
    for (const Waiting& waiting : model.queue.expired(now)) refused.push_back(state_->expire(waiting, now));
  return refused;
}

std::vector<Refused> AdmissionController::dropped(core::Instant now) {
  std::vector<Refused> refused;
  if (!state_->drops()) return refused;
  for (auto& [number, model] : state_->models) state_->drop_outranked(model, now, refused);
  return refused;
}

bool AdmissionController::cancelled(std::uint64_t ticket) {
  const auto found = state_->records.find(ticket);
  if (found == state_->records.end() || found->second.admit) return false;
  ModelQueue& model = state_->queue_of(found->second.model);
  const bool removed = (found->second.deferred ? model.deferred : model.queue).remove(ticket);
  PENSTOCK_ASSERT(removed, "a waiting request is in the queue of its model");
  --state_->tenants[found->second.tenant].waiting;
  state_->records.erase(found);
  return true;
}

void AdmissionController::ended(std::uint64_t ticket, std::uint64_t used_tokens, core::Instant now) {
  const auto found = state_->records.find(ticket);
  PENSTOCK_ASSERT(found != state_->records.end() && found->second.admit, "only an admitted request ends, once");
  const Record& record = found->second;
  TenantState& tenant = state_->tenants[record.tenant];
  tenant.budget.settle(record.reserve, used_tokens, now);
  state_->class_budgets[index_of(record.traffic_class)].settle(record.reserve, used_tokens, now);
  std::uint64_t& class_taken = state_->class_taken[index_of(record.traffic_class)];
  class_taken = class_taken - record.reserve + used_tokens;
  --tenant.running;
  tenant.settled_total += record.reserve;
  tenant.used_total += used_tokens;
  state_->records.erase(found);
}

AdmissionController::Tenant AdmissionController::tenant(std::uint32_t tenant, core::Instant now) const {
  const TenantState& state = state_->tenants[tenant];
  return {state.running,
          state.waiting,
          state.running_elsewhere,
          state.is_full(),
          state.budget.available(now),
          state.reserved_total - state.settled_total,
          state.reserved_total,
          state.settled_total,
          state.used_total,
          state.largest_claim,
          state.decisions};
}

RateLimits AdmissionController::rate_limits(std::uint32_t tenant, core::Instant now) const {
  const TenantState& state = state_->tenants[tenant];
  const BudgetLimits& budget = state.limits.budget;
  RateLimits made;
  if (budget.limited()) {
    made.tokens = budget.capacity();
    made.tokens_left = std::max(0.0, state.budget.available(now));
    made.tokens_reset = core::from_seconds(60.0 * state.budget.missing(now) / budget.tokens_per_minute);
  }
  made.requests = state.limits.concurrent;
  const std::uint64_t running = std::uint64_t{state.running} + state.running_elsewhere;
  if (!state.is_full() && made.requests > 0) made.requests_left = static_cast<std::uint32_t>(made.requests - running);
  return made;
}

std::size_t AdmissionController::waiting() const { return waiting(Class::kInteractive) + waiting(Class::kBatch); }

std::size_t AdmissionController::waiting(Class traffic_class) const {
  std::size_t sum = 0;
  for (const auto& [number, model] : state_->models) sum += model.queue.size(traffic_class);
  return sum;
}

std::uint64_t AdmissionController::waiting_tokens(std::uint32_t model) const {
  const auto found = state_->models.find(model);
  return found == state_->models.end() ? 0 : found->second.queue.tokens();
}

std::uint64_t AdmissionController::waiting_tokens(std::uint32_t model, Class traffic_class) const {
  const auto found = state_->models.find(model);
  if (found == state_->models.end()) return 0;
  const FairQueue& queue = found->second.queue;
  return traffic_class == Class::kInteractive ? queue.tokens(traffic_class) : queue.tokens();
}

OverloadAction AdmissionController::overload_action(std::uint32_t tenant, Class traffic_class) const {
  return state_->action(tenant, traffic_class);
}

AdmissionController::QueueDepth AdmissionController::waiting_for_room(std::uint32_t model) const {
  QueueDepth depth;
  if (!state_->models.contains(model)) return depth;
  std::set<std::pair<std::uint32_t, Class>> limited;  // Later requests of the same tenant and class wait with it.
  for (const Waiting& waiting : state_->models.at(model).queue.by_age()) {
    const std::pair<std::uint32_t, Class> kind{waiting.tenant, waiting.traffic_class};
    const bool waits = state_->waits_for_own_limit(state_->records.at(waiting.ticket));
    if (waits) limited.insert(kind);
    if (waits || limited.contains(kind)) continue;
    if (depth.requests++ == 0) depth.oldest = waiting.since;
  }
  return depth;
}

core::Instant AdmissionController::oldest() const {
  core::Instant oldest = core::kNever;
  for (const auto& [number, model] : state_->models) oldest = std::min(oldest, model.queue.oldest());
  return oldest;
}

}  // namespace penstock::admission
