#include "admission/admission_controller.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <unordered_map>
#include <utility>

#include "admission/token_rate.h"
#include "core/result.h"

namespace penstock::admission {
namespace {

constexpr std::uint32_t kRetryAfterMax = 60;

std::size_t index_of(Decision decision) { return static_cast<std::size_t>(decision); }

struct TenantState {
  TenantLimits limits;
  TokenBudget budget;
  std::uint32_t running = 0, waiting = 0;
  std::array<std::uint64_t, kDecisions> decisions{};
};

struct Lane {
  FairQueue queue;
  TokenRate pace;
};

struct Record {  // of a ticket that waits or was let in
  std::uint32_t tenant = 0, lane = 0;
  Class traffic_class = Class::kInteractive;
  std::uint64_t tokens = 0;
  bool admit = false;
  bool own_limited = false;      // when it was last looked at
  std::uint32_t passed = 0;      // by others, while pressure held it up
  std::uint64_t held_up_in = 0;  // the call of next() in which it last had to wait
};

// What of its own keeps a request from being let in.
enum class LimitKind : std::uint8_t { kNothing, kConcurrency, kBudget, kClassBudget };

std::uint32_t whole_seconds(core::Duration wait) {
  return static_cast<std::uint32_t>(
      std::clamp(std::ceil(core::to_seconds(wait)), 1.0, static_cast<double>(kRetryAfterMax)));
}

std::string class_knob(Class traffic_class, const char* knob) {
  return fmt::format("classes.{}.{}", to_string(traffic_class), knob);
}

std::string budget_sentence(const BudgetLimits& limits, const std::string& whose, double available,
                            std::uint64_t tokens, std::uint32_t seconds) {
  return fmt::format(
      "the request needs about {} tokens, and {:.0f} of {:.0f} tokens a minute are left to {}; try again in {} s",
      tokens, std::max(std::floor(available), 0.0), limits.tokens_per_minute, whose, seconds);
}

std::string too_large_sentence(const BudgetLimits& limits, const std::string& whose, std::uint64_t tokens) {
  return fmt::format(
      "the request needs about {} tokens, more than {} ever gets at once: {:.0f}; shorten it or lower max_tokens",
      tokens, whose, limits.capacity());
}

}  // namespace

const char* to_string(Decision decision) {
  switch (decision) {
    case Decision::kAdmit: return "admit";
    case Decision::kQueue: return "queue";
    case Decision::kRefuseBudget: return "refuse_budget";
    case Decision::kRefuseConcurrency: return "refuse_concurrency";
    case Decision::kRefuseQueueFull: return "refuse_queue_full";
    case Decision::kRefusePressure: return "refuse_pressure";
    case Decision::kRefuseQueueTime: return "refuse_queue_time";
  }
  return "admit";
}

struct AdmissionController::State {
  AdmissionLimits limits;
  std::array<TokenBudget, 2> class_budgets;
  std::vector<TenantState> tenants;
  std::map<std::uint32_t, Lane> lanes;
  std::unordered_map<std::uint64_t, Record> records;
  std::uint32_t first_lane = 0;  // of the next call of next()
  std::uint64_t calls = 0;       // of next()

  State(const AdmissionLimits& given, core::Instant now)
      : limits(given),
        class_budgets{TokenBudget{given.classes[0].budget, now}, TokenBudget{given.classes[1].budget, now}} {}

  Lane& lane_of(std::uint32_t number) {
    if (const auto found = lanes.find(number); found != lanes.end()) return found->second;
    Lane& made = lanes.emplace(number, Lane{FairQueue{limits.queue, limits.batch_turn}, {}}).first->second;
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
    return own_limit(waiting.tenant, waiting.traffic_class, waiting.tokens, now);
  }
  // When both budgets have so many tokens.
  [[nodiscard]] core::Instant affordable_at(std::uint32_t tenant, Class traffic_class, std::uint64_t tokens,
                                            core::Instant now) const {
    return std::max(tenants[tenant].budget.available_at(tokens, now),
                    class_budgets[index_of(traffic_class)].available_at(tokens, now));
  }

  void admit(Record& record, core::Instant now) {
    TenantState& tenant = tenants[record.tenant];
    const bool both = tenant.budget.reserve(record.tokens, now) &&
                      class_budgets[index_of(record.traffic_class)].reserve(record.tokens, now);
    PENSTOCK_ASSERT(both, "nothing is let in before its budgets were looked at");
    ++tenant.running;
    ++tenant.decisions[index_of(Decision::kAdmit)];
    lane_of(record.lane).pace.add(record.tokens, now);
    record.admit = true;
  }

  // Whether somebody waits in the lane who may go before: whom only pressure holds up, who waits for the same budget of a
  // class, or whose tenant it is.
  bool has_earlier_waiter(const Arrival& arrival) {
    const auto found = lanes.find(arrival.lane);
    if (found == lanes.end()) return false;
    bool somebody = false;
    std::array<bool, 2> class_exhausted{};
    const auto none = found->second.queue.pop([&](const Waiting& head) {
      const bool same_class = head.traffic_class == arrival.traffic_class;
      const LimitKind limit = own_limit(head, arrival.now);
      bool& broke = class_exhausted[index_of(head.traffic_class)];
      broke = broke || limit == LimitKind::kClassBudget;
      somebody = (same_class && (broke || head.tenant == arrival.tenant)) || (limit == LimitKind::kNothing && !broke);
      return somebody ? VisitResult::kStop : VisitResult::kPass;
    });
    PENSTOCK_ASSERT(!none, "looking takes nothing");
    return somebody;
  }

  Answer refuse(std::uint32_t tenant, Decision decision, std::uint32_t seconds, std::string why) {
    ++tenants[tenant].decisions[index_of(decision)];
    const bool own = decision == Decision::kRefuseBudget || decision == Decision::kRefuseConcurrency;
    return {decision, seconds, std::move(why), own};
  }

  // No wait would help: none if some wait could.
  std::optional<Answer> refuse_for_good(const Arrival& arrival);
  Answer refuse_budget(const Arrival& arrival, LimitKind limit, core::Instant affordable);
  Answer refuse_concurrency(const Arrival& arrival);
  Answer refuse_pressure(const Arrival& arrival);
  Answer refuse_full(const Arrival& arrival);
  std::optional<Answer> refuse_by_own_limit(const Arrival& arrival, LimitKind limit, core::Instant deadline,
                                            bool may_wait);
  Refused expire(const Waiting& waiting, core::Instant now);

  struct Call {  // of next()
    core::Instant now;
    const VerdictOf& verdict_of;
    Next result;
    std::size_t verdicts = 0;
    bool bounded = false;
    std::array<bool, 2>
        class_exhausted{};  // its budget does not suffice for the first of it, and nobody passes that one
    std::optional<std::uint32_t> lane_of_broke;
  };
  void drain(std::uint32_t number, Lane& lane, Call& call);
  VisitResult look(const Waiting& head, std::uint32_t number, std::array<bool, 2>& rejected, Call& call,
                   std::vector<Record*>& held_up);
};

std::optional<Answer> AdmissionController::State::refuse_for_good(const Arrival& arrival) {
  const std::uint64_t tokens = arrival.estimate.total();
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
                  too_large_sentence(of_class, class_knob(arrival.traffic_class, "tokens_per_minute"), tokens));
  return std::nullopt;
}

Answer AdmissionController::State::refuse_budget(const Arrival& arrival, LimitKind limit, core::Instant affordable) {
  const std::uint32_t seconds = whole_seconds(affordable - arrival.now);
  const TenantState& tenant = tenants[arrival.tenant];
  const bool of_class = limit == LimitKind::kClassBudget;
  const TokenBudget& budget = of_class ? class_budgets[index_of(arrival.traffic_class)] : tenant.budget;
  const std::string whose = of_class ? class_knob(arrival.traffic_class, "tokens_per_minute")
                                     : fmt::format("tenant {} (tokens_per_minute)", tenant.limits.name);
  return refuse(
      arrival.tenant, Decision::kRefuseBudget, seconds,
      budget_sentence(budget.limits(), whose, budget.available(arrival.now), arrival.estimate.total(), seconds));
}

Answer AdmissionController::State::refuse_concurrency(const Arrival& arrival) {
  const TenantState& tenant = tenants[arrival.tenant];
  return refuse(
      arrival.tenant, Decision::kRefuseConcurrency, 1,
      fmt::format("tenant {} has {} requests under way, and may have {} (concurrent); try again when one has ended",
                  tenant.limits.name, tenant.running, tenant.limits.concurrent));
}

Answer AdmissionController::State::refuse_pressure(const Arrival& arrival) {
  Lane& lane = lane_of(arrival.lane);
  const std::uint32_t seconds =
      retry_after_s(lane.queue.tokens() + arrival.estimate.total(), lane.pace.tokens_per_s(arrival.now));
  return refuse(
      arrival.tenant, Decision::kRefusePressure, seconds,
      fmt::format("all replicas are full (kv_throttle, kv_reject, prefill_tokens_per_replica), and {} requests may "
                  "not wait ({}); {} wait; try again in {} s",
                  to_string(arrival.traffic_class), class_knob(arrival.traffic_class, "queue_time"), lane.queue.size(),
                  seconds));
}

Answer AdmissionController::State::refuse_full(const Arrival& arrival) {
  Lane& lane = lane_of(arrival.lane);
  const std::uint64_t tokens = lane.queue.tokens(arrival.traffic_class);
  const std::uint32_t seconds = retry_after_s(tokens, lane.pace.tokens_per_s(arrival.now));
  return refuse(
      arrival.tenant, Decision::kRefuseQueueFull, seconds,
      fmt::format("{} {} requests of {} tokens wait already (queue_requests {}, {} of one tenant, {} tokens); try "
                  "again in {} s",
                  lane.queue.size(arrival.traffic_class), to_string(arrival.traffic_class), tokens,
                  limits.queue.requests, limits.queue.requests_per_tenant, limits.queue.tokens, seconds));
}

// A request that can only be granted after it has stopped waiting is refused at once.
std::optional<Answer> AdmissionController::State::refuse_by_own_limit(const Arrival& arrival, LimitKind limit,
                                                                      core::Instant deadline, bool may_wait) {
  const bool tenant_waits = may_wait && tenants[arrival.tenant].limits.queue_over_budget;
  if (limit == LimitKind::kConcurrency && !tenant_waits) return refuse_concurrency(arrival);
  if (limit != LimitKind::kBudget && limit != LimitKind::kClassBudget) return std::nullopt;
  const core::Instant affordable =
      affordable_at(arrival.tenant, arrival.traffic_class, arrival.estimate.total(), arrival.now);
  const bool waits = limit == LimitKind::kBudget ? tenant_waits : may_wait;
  if (waits && affordable <= deadline) return std::nullopt;
  return refuse_budget(arrival, limit, affordable);
}

Refused AdmissionController::State::expire(const Waiting& waiting, core::Instant now) {
  const auto found = records.find(waiting.ticket);
  Lane& lane = lane_of(found->second.lane);
  records.erase(found);
  --tenants[waiting.tenant].waiting;
  const LimitKind limit = own_limit(waiting, now);
  std::uint32_t seconds = 1;
  const char* what = "for one of its tenant's requests to end (concurrent)";
  if (limit == LimitKind::kBudget || limit == LimitKind::kClassBudget) {
    const core::Instant affordable = affordable_at(waiting.tenant, waiting.traffic_class, waiting.tokens, now);
    seconds = affordable == core::kNever ? kRetryAfterMax : whole_seconds(affordable - now);
    what = limit == LimitKind::kBudget ? "for its tenant's budget (tokens_per_minute)"
                                       : "for its class's budget (tokens_per_minute)";
  } else if (limit == LimitKind::kNothing) {
    seconds = retry_after_s(lane.queue.tokens() + waiting.tokens, lane.pace.tokens_per_s(now));
    what = "for a replica with room";
  }
  Answer answer = refuse(waiting.tenant, Decision::kRefuseQueueTime, seconds,
                         fmt::format("it waited {:.1f} s {}, as long as it may ({}); {} others wait; try again in {} s",
                                     core::to_seconds(now - waiting.since), what,
                                     class_knob(waiting.traffic_class, "queue_time"), lane.queue.size(), seconds));
  answer.own_limit = limit != LimitKind::kNothing;
  return {waiting.ticket, std::move(answer)};
}

VisitResult AdmissionController::State::look(const Waiting& head, std::uint32_t number, std::array<bool, 2>& rejected,
                                             Call& call, std::vector<Record*>& held_up) {
  const std::size_t of_class = index_of(head.traffic_class);
  const auto blocked = [&](std::size_t number_of_class) {
    return rejected[number_of_class] || call.class_exhausted[number_of_class];
  };
  if (blocked(0) && blocked(1)) return VisitResult::kStop;
  if (blocked(of_class)) return VisitResult::kPass;
  const LimitKind limit = own_limit(head, call.now);
  if (limit == LimitKind::kClassBudget) {
    call.class_exhausted[of_class] = true;
    if (!call.lane_of_broke) call.lane_of_broke = number;
  }
  Record& record = records.find(head.ticket)->second;
  record.own_limited = limit != LimitKind::kNothing;
  if (record.own_limited) return VisitResult::kPass;

  Verdict verdict = Verdict::kWait;  // letting others in since it was asked has not made room for it
  if (record.held_up_in != calls) {
    if (call.verdicts == kVerdictsMax) {
      call.bounded = true;
      return VisitResult::kStop;
    }
    ++call.verdicts;
    verdict = call.verdict_of(head.ticket);
  }
  if (verdict == Verdict::kAdmit) return VisitResult::kTake;
  if (verdict == Verdict::kReject) {
    rejected[of_class] = true;
    return VisitResult::kPass;
  }
  record.held_up_in = calls;
  if (record.passed >= kPassesMax) return VisitResult::kStop;
  held_up.push_back(&record);
  return VisitResult::kPass;
}

void AdmissionController::State::drain(std::uint32_t number, Lane& lane, Call& call) {
  std::array<bool, 2> rejected{lane.queue.size(Class::kInteractive) == 0, lane.queue.size(Class::kBatch) == 0};
  std::vector<Record*> held_up;
  while (lane.queue.size() > 0) {
    if (call.result.admitted.size() == kAdmittedMax) {
      call.bounded = true;
      return;
    }
    held_up.clear();
    const auto taken = lane.queue.pop([&](const Waiting& head) { return look(head, number, rejected, call, held_up); });
    if (!taken) return;
    for (Record* passed : held_up) ++passed->passed;
    admit(records.find(taken->ticket)->second, call.now);
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
  for (auto& [number, lane] : state_->lanes) lane.queue.set_weight(tenant, limits.weight);
}

Answer AdmissionController::arrive(const Arrival& arrival, Verdict pressure) {
  State& state = *state_;
  PENSTOCK_ASSERT(arrival.tenant < state.tenants.size(), "tenants are set before they come");
  PENSTOCK_ASSERT(!state.records.contains(arrival.ticket), "a ticket arrives once");
  if (auto refused = state.refuse_for_good(arrival)) return *refused;

  const ClassLimits& of_class = state.limits.classes[index_of(arrival.traffic_class)];
  const bool may_wait = of_class.queue_time > core::Duration{};
  const core::Instant deadline = std::min(arrival.deadline, arrival.now + of_class.queue_time);
  const std::uint64_t tokens = arrival.estimate.total();
  const LimitKind limit = state.own_limit(arrival.tenant, arrival.traffic_class, tokens, arrival.now);
  if (auto refused = state.refuse_by_own_limit(arrival, limit, deadline, may_wait)) return *refused;

  TenantState& tenant = state.tenants[arrival.tenant];
  Record record{arrival.tenant, arrival.lane, arrival.traffic_class, tokens};
  record.own_limited = limit != LimitKind::kNothing;
  // A class that may not wait has nobody in the queue, and does not stand back for the other one's.
  if (limit == LimitKind::kNothing && pressure == Verdict::kAdmit && !(may_wait && state.has_earlier_waiter(arrival))) {
    state.admit(record, arrival.now);
    state.records.emplace(arrival.ticket, record);
    return {};
  }
  if (!may_wait) return state.refuse_pressure(arrival);
  const Waiting waiting{arrival.ticket, arrival.tenant, arrival.traffic_class, tokens, tenant.limits.tier,
                        arrival.now,    deadline};
  if (!state.lane_of(arrival.lane).queue.push(waiting)) {
    Answer full = state.refuse_full(arrival);
    full.own_limit = record.own_limited;
    return full;
  }
  state.records.emplace(arrival.ticket, record);
  ++tenant.waiting;
  ++tenant.decisions[index_of(Decision::kQueue)];
  return {Decision::kQueue, 0, {}, record.own_limited};
}

Next AdmissionController::next(core::Instant now, const VerdictOf& verdict_of) {
  State& state = *state_;
  ++state.calls;
  State::Call call{now, verdict_of, {}, 0, false, {}, {}};
  const auto first = state.lanes.lower_bound(state.first_lane);
  for (auto at = first; at != state.lanes.end(); ++at) state.drain(at->first, at->second, call);
  for (auto at = state.lanes.begin(); at != first; ++at) state.drain(at->first, at->second, call);
  // The lanes take turns at being first, but one that waits for the budget of a class keeps its turn.
  if (first != state.lanes.end()) state.first_lane = call.lane_of_broke.value_or(first->first + 1);
  if (state.lanes.lower_bound(state.first_lane) == state.lanes.end()) state.first_lane = 0;
  call.result.more = call.bounded && !call.result.admitted.empty();
  return std::move(call.result);
}

core::Instant AdmissionController::wake_at(core::Instant now) const {
  core::Instant earliest = core::kNever;
  for (auto& [number, lane] : state_->lanes) {
    earliest = std::min(earliest, lane.queue.next_deadline());
    const auto none = lane.queue.pop([&](const Waiting& head) {
      const LimitKind limit = state_->own_limit(head, now);
      if (limit == LimitKind::kBudget || limit == LimitKind::kClassBudget)
        earliest = std::min(earliest, state_->affordable_at(head.tenant, head.traffic_class, head.tokens, now));
      return VisitResult::kPass;
    });
    PENSTOCK_ASSERT(!none, "looking takes nothing");
  }
  return earliest;
}

std::vector<Refused> AdmissionController::expired(core::Instant now) {
  std::vector<Refused> refused;
  for (auto& [number, lane] : state_->lanes)
    for (const Waiting& waiting : lane.queue.expired(now)) refused.push_back(state_->expire(waiting, now));
  return refused;
}

bool AdmissionController::cancelled(std::uint64_t ticket) {
  const auto found = state_->records.find(ticket);
  if (found == state_->records.end() || found->second.admit) return false;
  const bool removed = state_->lane_of(found->second.lane).queue.remove(ticket);
  PENSTOCK_ASSERT(removed, "what waits is in the queue of its lane");
  --state_->tenants[found->second.tenant].waiting;
  state_->records.erase(found);
  return true;
}

void AdmissionController::ended(std::uint64_t ticket, std::uint64_t used_tokens, core::Instant now) {
  const auto found = state_->records.find(ticket);
  PENSTOCK_ASSERT(found != state_->records.end() && found->second.admit, "only what was let in ends, once");
  const Record& record = found->second;
  TenantState& tenant = state_->tenants[record.tenant];
  tenant.budget.settle(record.tokens, used_tokens, now);
  state_->class_budgets[index_of(record.traffic_class)].settle(record.tokens, used_tokens, now);
  --tenant.running;
  state_->records.erase(found);
}

AdmissionController::Tenant AdmissionController::tenant(std::uint32_t tenant, core::Instant now) const {
  const TenantState& state = state_->tenants[tenant];
  return {state.running, state.waiting, state.budget.available(now), state.decisions};
}

std::size_t AdmissionController::waiting() const { return waiting(Class::kInteractive) + waiting(Class::kBatch); }

std::size_t AdmissionController::waiting(Class traffic_class) const {
  std::size_t sum = 0;
  for (const auto& [number, lane] : state_->lanes) sum += lane.queue.size(traffic_class);
  return sum;
}

std::uint64_t AdmissionController::waiting_tokens(std::uint32_t lane) const {
  const auto found = state_->lanes.find(lane);
  return found == state_->lanes.end() ? 0 : found->second.queue.tokens();
}

AdmissionController::QueueDepth AdmissionController::waiting_for_room(std::uint32_t lane) const {
  QueueDepth crowd;
  if (!state_->lanes.contains(lane)) return crowd;
  for (const Waiting& waiting : state_->lanes.at(lane).queue.by_age()) {
    if (state_->records.at(waiting.ticket).own_limited) continue;
    if (crowd.requests++ == 0) crowd.oldest = waiting.since;
  }
  return crowd;
}

core::Instant AdmissionController::oldest() const {
  core::Instant oldest = core::kNever;
  for (const auto& [number, lane] : state_->lanes) oldest = std::min(oldest, lane.queue.oldest());
  return oldest;
}

}  // namespace penstock::admission
