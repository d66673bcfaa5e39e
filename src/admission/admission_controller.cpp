#include "admission/admission_controller.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include <tsl/robin_map.h>

#include "admission/refusal_text.h"
#include "admission/waiting_state.h"
#include "core/enum_names.h"
#include "core/result.h"

namespace penstock::admission {
namespace {

std::size_t index_of(Decision decision) { return static_cast<std::size_t>(decision); }

}  // namespace

const char* to_string(Decision decision) {
  return core::name_of<Decision::kRefuseQueueTime>(
      decision, {"admit", "queue", "refuse_budget", "refuse_concurrency", "refuse_queue_full", "refuse_pressure",
                 "refuse_queue_time"});
}

struct AdmissionController::State {
  AdmissionLimits limits;
  std::array<TokenBudget, 2> class_budgets;
  std::vector<TenantState> tenants;
  std::map<std::uint32_t, ModelQueue> models;
  tsl::robin_map<std::uint64_t, Record> records;
  std::uint32_t first_model = 0;  // Model that the next call of next() visits first.
  std::uint64_t calls = 0;        // Number of calls of next().
  // By class: its budget did not suffice for its first request when the queues were visited last. No later request of
  // the class may overtake that one.
  std::array<bool, 2> class_exhausted{};

  State(const AdmissionLimits& given, core::Instant now)
      : limits(given),
        class_budgets{TokenBudget{given.classes[0].budget, now}, TokenBudget{given.classes[1].budget, now}} {}

  ModelQueue& queue_of(std::uint32_t number) {
    if (const auto found = models.find(number); found != models.end()) return found->second;
    ModelQueue& made = models.emplace(number, ModelQueue{FairQueue{limits.queue, limits.batch_turn}, {}}).first->second;
    for (std::uint32_t i = 0; i < tenants.size(); ++i) made.queue.set_weight(i, tenants[i].limits.weight);
    return made;
  }

  [[nodiscard]] LimitKind own_limit(std::uint32_t tenant, Class traffic_class, std::uint64_t tokens,
                                    core::Instant now) const {
    const TenantState& state = tenants[tenant];
    const auto wanted = static_cast<double>(tokens);
    if (state.limits.concurrent > 0 && state.running >= state.limits.concurrent) return LimitKind::kConcurrency;
    if (state.budget.available(now) < wanted) return LimitKind::kBudget;
    if (class_budgets[index_of(traffic_class)].available(now) < wanted) return LimitKind::kClassBudget;
    return LimitKind::kNothing;
  }
  [[nodiscard]] LimitKind own_limit(const Waiting& waiting, core::Instant now) const {
    return own_limit(waiting.tenant, waiting.traffic_class, waiting.needed, now);
  }
  // Returns the time at which both budgets hold this many tokens.
  [[nodiscard]] core::Instant affordable_at(std::uint32_t tenant, Class traffic_class, std::uint64_t tokens,
                                            core::Instant now) const {
    return std::max(tenants[tenant].budget.available_at(tokens, now),
                    class_budgets[index_of(traffic_class)].available_at(tokens, now));
  }

  // The budgets hold what the request needs.
  void admit(Record& record, core::Instant now) {
    TenantState& tenant = tenants[record.tenant];
    tenant.budget.settle(0, record.reserve, now);
    class_budgets[index_of(record.traffic_class)].settle(0, record.reserve, now);
    ++tenant.running;
    tenant.reserved_total += record.reserve;
    tenant.largest_claim = std::max(tenant.largest_claim, record.reserve);
    ++tenant.decisions[index_of(Decision::kAdmit)];
    queue_of(record.model).admit_rate.add(record.tokens, now);
    record.admit = true;
  }

  // Returns the limit that blocks the queued request of the model that has precedence: one that only saturation blocks,
  // one that waits for the same class budget, or one of the same tenant. Empty if none has.
  std::optional<LimitKind> limit_of_earlier_waiter(const Arrival& arrival) {
    const auto found = models.find(arrival.model);
    if (found == models.end()) return std::nullopt;
    std::optional<LimitKind> waiter;
    std::array<bool, 2> exhausted_classes{};
    const auto none = found->second.queue.pop([&](const Waiting& head) {
      const bool same_class = head.traffic_class == arrival.traffic_class;
      const LimitKind limit = own_limit(head, arrival.now);
      bool& exhausted = exhausted_classes[index_of(head.traffic_class)];
      exhausted = exhausted || limit == LimitKind::kClassBudget;
      if (same_class && (exhausted || head.tenant == arrival.tenant))
        waiter = exhausted ? LimitKind::kClassBudget : limit;
      else if (limit == LimitKind::kNothing && !exhausted)
        waiter = LimitKind::kNothing;
      // Whether a replica has room for it is not known yet.
      if (waiter == LimitKind::kNothing && !records.at(head.ticket).saturated) waiter = LimitKind::kTurn;
      return waiter ? VisitResult::kStop : VisitResult::kPass;
    });
    PENSTOCK_ASSERT(!none, "a visit takes nothing");
    return waiter;
  }

  // Whether a limit of its tenant or class holds the queued request up, so that no replica could help it.
  [[nodiscard]] bool waits_for_own_limit(const Record& record) const {
    return record.limit != LimitKind::kNothing || class_exhausted[index_of(record.traffic_class)];
  }

  Answer refuse(std::uint32_t tenant, Decision decision, std::uint32_t seconds, std::string why) {
    ++tenants[tenant].decisions[index_of(decision)];
    const bool own = decision == Decision::kRefuseBudget || decision == Decision::kRefuseConcurrency;
    return {decision, seconds, std::move(why), own};
  }

  // Refuses a request that no wait could admit.
  std::optional<Answer> refuse_permanently(const Arrival& arrival);
  Answer refuse_budget(const Arrival& arrival, LimitKind limit, core::Instant affordable);
  Answer refuse_concurrency(const Arrival& arrival);
  Answer refuse_pressure(const Arrival& arrival);
  Answer refuse_full(const Arrival& arrival);
  std::optional<Answer> refuse_by_own_limit(const Arrival& arrival, LimitKind limit, core::Instant deadline,
                                            bool may_wait);
  Refused expire(const Waiting& waiting, core::Instant now);

  struct Call {  // State of one call of next().
    core::Instant now;
    const VerdictOf& verdict_of;
    Next result;
    std::size_t verdicts = 0;
    bool bounded = false;
    std::array<bool, 2>
        // The budget of the class does not suffice for its first request, and no later one may overtake it.
        class_exhausted{};
    std::optional<std::uint32_t> model_of_exhausted_class;
  };
  void drain(std::uint32_t number, ModelQueue& model, Call& call);
  VisitResult visit(const Waiting& head, std::uint32_t number, std::array<bool, 2>& rejected, Call& call,
                    std::vector<Record*>& blocked_records);
};

std::optional<Answer> AdmissionController::State::refuse_permanently(const Arrival& arrival) {
  const std::uint64_t tokens = arrival.claimed().needed;
  const auto larger = [&](const BudgetLimits& budget) {
    return budget.limited() && static_cast<double>(tokens) > budget.capacity();
  };
  const TenantState& tenant = tenants[arrival.tenant];
  if (larger(tenant.limits.budget))
    return refuse(
        arrival.tenant, Decision::kRefuseBudget, 0,
        too_large_sentence(tenant.limits.budget, fmt::format("tenant {} (burst_tokens)", tenant.limits.name), tokens));
  const BudgetLimits& of_class = limits.classes[index_of(arrival.traffic_class)].budget;
  if (larger(of_class))
    return refuse(arrival.tenant, Decision::kRefuseBudget, 0,
                  too_large_sentence(of_class, class_option(arrival.traffic_class, "tokens_per_minute"), tokens));
  return std::nullopt;
}

Answer AdmissionController::State::refuse_budget(const Arrival& arrival, LimitKind limit, core::Instant affordable) {
  const std::uint32_t seconds = whole_seconds(affordable - arrival.now);
  const TenantState& tenant = tenants[arrival.tenant];
  const bool of_class = limit == LimitKind::kClassBudget;
  const TokenBudget& budget = of_class ? class_budgets[index_of(arrival.traffic_class)] : tenant.budget;
  const std::string whose = of_class ? class_option(arrival.traffic_class, "tokens_per_minute")
                                     : fmt::format("tenant {} (tokens_per_minute)", tenant.limits.name);
  return refuse(
      arrival.tenant, Decision::kRefuseBudget, seconds,
      budget_sentence(budget.limits(), whose, budget.available(arrival.now), arrival.claimed().needed, seconds));
}

Answer AdmissionController::State::refuse_concurrency(const Arrival& arrival) {
  const TenantState& tenant = tenants[arrival.tenant];
  return refuse(
      arrival.tenant, Decision::kRefuseConcurrency, 1,
      fmt::format("tenant {} has {} requests in flight, the limit (concurrent) is {}; retry when one has ended",
                  tenant.limits.name, tenant.running, tenant.limits.concurrent));
}

Answer AdmissionController::State::refuse_pressure(const Arrival& arrival) {
  ModelQueue& model = queue_of(arrival.model);
  const std::uint32_t seconds =
      retry_after_s(model.queue.tokens() + arrival.estimate.total(), model.admit_rate.tokens_per_s(arrival.now));
  return refuse(
      arrival.tenant, Decision::kRefusePressure, seconds,
      fmt::format("all replicas are full (kv_throttle, kv_reject, prefill_tokens_per_replica), and {} requests may "
                  "not wait ({}); {} wait; retry in {} s",
                  to_string(arrival.traffic_class), class_option(arrival.traffic_class, "queue_time"),
                  model.queue.size(), seconds));
}

Answer AdmissionController::State::refuse_full(const Arrival& arrival) {
  ModelQueue& model = queue_of(arrival.model);
  const std::uint64_t tokens = model.queue.tokens(arrival.traffic_class);
  const std::uint32_t seconds = retry_after_s(tokens, model.admit_rate.tokens_per_s(arrival.now));
  return refuse(arrival.tenant, Decision::kRefuseQueueFull, seconds,
                fmt::format("{} {} requests of {} tokens wait already; the queue is full (queue_requests {}, {} of one "
                            "tenant, {} tokens); retry "
                            "in {} s",
                            model.queue.size(arrival.traffic_class), to_string(arrival.traffic_class), tokens,
                            limits.queue.requests, limits.queue.requests_per_tenant, limits.queue.tokens, seconds));
}

// Refuses at once a request whose limit would be lifted only after its deadline.
std::optional<Answer> AdmissionController::State::refuse_by_own_limit(const Arrival& arrival, LimitKind limit,
                                                                      core::Instant deadline, bool may_wait) {
  const bool tenant_waits = may_wait && tenants[arrival.tenant].limits.queue_over_budget;
  if (limit == LimitKind::kConcurrency && !tenant_waits) return refuse_concurrency(arrival);
  if (limit != LimitKind::kBudget && limit != LimitKind::kClassBudget) return std::nullopt;
  const core::Instant affordable =
      affordable_at(arrival.tenant, arrival.traffic_class, arrival.claimed().needed, arrival.now);
  const bool waits = limit == LimitKind::kBudget ? tenant_waits : may_wait;
  if (waits && affordable <= deadline) return std::nullopt;
  return refuse_budget(arrival, limit, affordable);
}

Refused AdmissionController::State::expire(const Waiting& waiting, core::Instant now) {
  const auto found = records.find(waiting.ticket);
  ModelQueue& model = queue_of(found->second.model);
  const bool waited_for_own_limit = waits_for_own_limit(found->second);
  records.erase(found);
  --tenants[waiting.tenant].waiting;
  const LimitKind limit = own_limit(waiting, now);
  std::uint32_t seconds = 1;
  const char* what = "for one of its tenant's requests to end (concurrent)";
  if (limit == LimitKind::kBudget || limit == LimitKind::kClassBudget) {
    const core::Instant affordable = affordable_at(waiting.tenant, waiting.traffic_class, waiting.needed, now);
    seconds = affordable == core::kNever ? kRetryAfterMax : whole_seconds(affordable - now);
    what = limit == LimitKind::kBudget ? "for its tenant's budget (tokens_per_minute)"
                                       : "for its class's budget (tokens_per_minute)";
  } else if (limit == LimitKind::kNothing) {
    seconds = retry_after_s(model.queue.tokens() + waiting.tokens, model.admit_rate.tokens_per_s(now));
    what = "for a replica with free capacity";
  }
  Answer answer =
      refuse(waiting.tenant, Decision::kRefuseQueueTime, seconds,
             fmt::format("the request waited {:.1f} s {}, the maximum of {}; {} other requests wait; retry in {} s",
                         core::to_seconds(now - waiting.since), what, class_option(waiting.traffic_class, "queue_time"),
                         model.queue.size(), seconds));
  answer.own_limit = limit != LimitKind::kNothing || waited_for_own_limit;
  return {waiting.ticket, std::move(answer)};
}

VisitResult AdmissionController::State::visit(const Waiting& head, std::uint32_t number, std::array<bool, 2>& rejected,
                                              Call& call, std::vector<Record*>& blocked_records) {
  const std::size_t of_class = index_of(head.traffic_class);
  const auto blocked = [&](std::size_t number_of_class) {
    return rejected[number_of_class] || call.class_exhausted[number_of_class];
  };
  if (blocked(0) && blocked(1)) return VisitResult::kStop;
  if (blocked(of_class)) return VisitResult::kPass;
  const LimitKind limit = own_limit(head, call.now);
  if (limit == LimitKind::kClassBudget) {
    call.class_exhausted[of_class] = true;
    if (!call.model_of_exhausted_class) call.model_of_exhausted_class = number;
  }
  Record& record = records.find(head.ticket).value();
  record.limit = limit;
  if (limit != LimitKind::kNothing) return VisitResult::kPass;

  Verdict verdict = Verdict::kWait;  // Admissions since the last verdict have not freed capacity.
  if (record.blocked_in_call != calls) {
    if (call.verdicts == kVerdictsMax) {
      call.bounded = true;
      return VisitResult::kStop;
    }
    ++call.verdicts;
    verdict = call.verdict_of(head.ticket);
    record.saturated = verdict != Verdict::kAdmit;
  }
  if (verdict == Verdict::kAdmit) return VisitResult::kTake;
  if (verdict == Verdict::kReject) {
    rejected[of_class] = true;
    return VisitResult::kPass;
  }
  record.blocked_in_call = calls;
  if (record.passed >= kPassesMax) return VisitResult::kStop;
  blocked_records.push_back(&record);
  return VisitResult::kPass;
}

void AdmissionController::State::drain(std::uint32_t number, ModelQueue& model, Call& call) {
  std::array<bool, 2> rejected{model.queue.size(Class::kInteractive) == 0, model.queue.size(Class::kBatch) == 0};
  std::vector<Record*> blocked_records;
  while (model.queue.size() > 0) {
    if (call.result.admitted.size() == kAdmittedMax) {
      call.bounded = true;
      return;
    }
    blocked_records.clear();
    const auto taken =
        model.queue.pop([&](const Waiting& head) { return visit(head, number, rejected, call, blocked_records); });
    if (!taken) return;
    for (Record* passed : blocked_records) ++passed->passed;
    admit(records.find(taken->ticket).value(), call.now);
    --tenants[taken->tenant].waiting;
    call.result.admitted.push_back({taken->ticket, taken->tenant, number, call.now - taken->since});
  }
}

AdmissionController::AdmissionController(const AdmissionLimits& limits, core::Instant now)
    : state_(std::make_unique<State>(limits, now)) {}
AdmissionController::~AdmissionController() = default;
AdmissionController::AdmissionController(AdmissionController&&) noexcept = default;
AdmissionController& AdmissionController::operator=(AdmissionController&&) noexcept = default;

void AdmissionController::set_tenant(std::uint32_t tenant, const TenantLimits& limits, core::Instant now) {
  PENSTOCK_ASSERT(tenant <= state_->tenants.size(), "tenants are numbered without gaps");
  if (tenant == state_->tenants.size()) {
    state_->tenants.push_back({limits, TokenBudget{limits.budget, now}});
  } else {
    state_->tenants[tenant].limits = limits;
    state_->tenants[tenant].budget.change(limits.budget, now);
  }
  for (auto& [number, model] : state_->models) model.queue.set_weight(tenant, limits.weight);
}

void AdmissionController::set_classes(const std::array<ClassLimits, 2>& classes, core::Instant now) {
  state_->limits.classes = classes;
  for (std::size_t i = 0; i < classes.size(); ++i) state_->class_budgets[i].change(classes[i].budget, now);
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
  State& state = *state_;
  PENSTOCK_ASSERT(arrival.tenant < state.tenants.size(), "tenants are set before their requests arrive");
  PENSTOCK_ASSERT(!state.records.contains(arrival.ticket), "a ticket arrives once");
  if (auto refused = state.refuse_permanently(arrival)) return *refused;

  const ClassLimits& class_limits = state.limits.classes[index_of(arrival.traffic_class)];
  const bool may_wait = class_limits.queue_time > core::Duration{};
  const core::Instant deadline = std::min(arrival.deadline, arrival.now + class_limits.queue_time);
  const std::uint64_t tokens = arrival.estimate.total();
  const BudgetClaim claim = arrival.claimed();
  const LimitKind limit = state.own_limit(arrival.tenant, arrival.traffic_class, claim.needed, arrival.now);
  if (auto refused = state.refuse_by_own_limit(arrival, limit, deadline, may_wait)) return *refused;

  TenantState& tenant = state.tenants[arrival.tenant];
  Record record{arrival.tenant, arrival.model, arrival.traffic_class, tokens, claim.tokens};
  record.limit = limit;
  if (waiting() == 0) state.class_exhausted = {};
  std::optional<LimitKind> earlier;
  // A class that may not wait has no queue and does not yield to the other class.
  if (limit == LimitKind::kNothing && may_wait) earlier = state.limit_of_earlier_waiter(arrival);
  if (earlier) record.limit = *earlier;
  if (limit == LimitKind::kNothing && !earlier) {
    record.saturated = verdict_of(arrival.ticket) != Verdict::kAdmit;
    if (!record.saturated) {
      state.admit(record, arrival.now);
      state.records.emplace(arrival.ticket, record);
      return {};
    }
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
  State& state = *state_;
  ++state.calls;
  State::Call call{now, verdict_of, {}, 0, false, {}, {}};
  const auto first = state.models.lower_bound(state.first_model);
  for (auto at = first; at != state.models.end(); ++at) state.drain(at->first, at->second, call);
  for (auto at = state.models.begin(); at != first; ++at) state.drain(at->first, at->second, call);
  state.class_exhausted = call.class_exhausted;
  // The models take turns at being visited first, but one that waits for a class budget keeps its turn.
  if (first != state.models.end()) state.first_model = call.model_of_exhausted_class.value_or(first->first + 1);
  if (state.models.lower_bound(state.first_model) == state.models.end()) state.first_model = 0;
  call.result.more = call.bounded && !call.result.admitted.empty();
  return std::move(call.result);
}

core::Instant AdmissionController::wake_at(core::Instant now) const {
  core::Instant earliest = core::kNever;
  for (auto& [number, model] : state_->models) {
    earliest = std::min(earliest, model.queue.next_deadline());
    const auto none = model.queue.pop([&](const Waiting& head) {
      const LimitKind limit = state_->own_limit(head, now);
      if (limit == LimitKind::kBudget || limit == LimitKind::kClassBudget)
        earliest = std::min(earliest, state_->affordable_at(head.tenant, head.traffic_class, head.needed, now));
      return VisitResult::kPass;
    });
    PENSTOCK_ASSERT(!none, "a visit takes nothing");
  }
  return earliest;
}

std::vector<Refused> AdmissionController::expired(core::Instant now) {
  std::vector<Refused> refused;
  for (auto& [number, model] : state_->models)
    for (const Waiting& waiting : model.queue.expired(now)) refused.push_back(state_->expire(waiting, now));
  return refused;
}

bool AdmissionController::cancelled(std::uint64_t ticket) {
  const auto found = state_->records.find(ticket);
  if (found == state_->records.end() || found->second.admit) return false;
  const bool removed = state_->queue_of(found->second.model).queue.remove(ticket);
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
  --tenant.running;
  tenant.settled_total += record.reserve;
  tenant.used_total += used_tokens;
  state_->records.erase(found);
}

AdmissionController::Tenant AdmissionController::tenant(std::uint32_t tenant, core::Instant now) const {
  const TenantState& state = state_->tenants[tenant];
  return {state.running,
          state.waiting,
          state.budget.available(now),
          state.reserved_total - state.settled_total,
          state.reserved_total,
          state.settled_total,
          state.used_total,
          state.largest_claim,
          state.decisions};
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
