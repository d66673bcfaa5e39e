// The state of AdmissionController, for its own files only: what waits and runs, and the rules over it.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <tsl/robin_map.h>

#include "admission/admission_controller.h"
#include "admission/waiting_state.h"
#include "core/result.h"

namespace penstock::admission {

[[nodiscard]] constexpr std::size_t index_of(Decision decision) { return static_cast<std::size_t>(decision); }

struct ControllerState {
  AdmissionLimits limits;
  std::array<TokenBudget, 2> class_budgets;
  std::array<std::uint64_t, 2> class_taken{};  // By class: all reservations less what was returned.
  std::vector<TenantState> tenants;
  tsl::robin_map<std::string, std::uint32_t> tenant_numbers;  // By name.
  std::map<std::uint32_t, ModelQueue> models;
  tsl::robin_map<std::uint64_t, Record> records;
  std::uint32_t first_model = 0;  // Model that the next call of next() visits first.
  std::uint64_t calls = 0;        // Number of calls of next().
  // By class: its budget did not suffice for its first request when the queues were visited last. No later request of
  // the class may overtake that one.
  std::array<bool, 2> class_exhausted{};
  std::size_t tenants_that_drop = 0;

  ControllerState(const AdmissionLimits& given, core::Instant now)
      : limits(given),
        class_budgets{TokenBudget{given.classes[0].budget, now}, TokenBudget{given.classes[1].budget, now}} {}

  ModelQueue& queue_of(std::uint32_t number) {
    if (const auto found = models.find(number); found != models.end()) return found->second;
    ModelQueue& made = models
                           .emplace(number, ModelQueue{FairQueue{limits.queue, limits.batch_turn},
                                                       FairQueue{limits.deferred, limits.batch_turn}})
                           .first->second;
    for (std::uint32_t i = 0; i < tenants.size(); ++i) set_weight(made, i);
    return made;
  }
  void set_weight(ModelQueue& model, std::uint32_t tenant) const {
    model.queue.set_weight(tenant, tenants[tenant].limits.weight);
    model.deferred.set_weight(tenant, tenants[tenant].limits.weight);
  }

  [[nodiscard]] LimitKind own_limit(std::uint32_t tenant, Class traffic_class, std::uint64_t tokens,
                                    core::Instant now) const {
    const TenantState& state = tenants[tenant];
    const auto wanted = static_cast<double>(tokens);
    if (state.is_full()) return LimitKind::kConcurrency;
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
    class_taken[index_of(record.traffic_class)] += record.reserve;
    ++tenant.running;
    tenant.reserved_total += record.reserve;
    tenant.largest_claim = std::max(tenant.largest_claim, record.reserve);
    ++tenant.decisions[index_of(Decision::kAdmit)];
    queue_of(record.model).admit_rate.add(record.tokens, now);
    record.admit = true;
  }

  // Tokens that running requests of the class reserved. O(requests), whose order does not matter for the sum.
  [[nodiscard]] std::uint64_t reserved(Class traffic_class) const {
    std::uint64_t sum = 0;
    for (auto at = records.begin(); at != records.end(); ++at)
      if (at->second.admit && at->second.traffic_class == traffic_class) sum += at->second.reserve;
    return sum;
  }

  [[nodiscard]] OverloadAction action(std::uint32_t tenant, Class traffic_class) const {
    const ClassLimits& of_class = limits.classes[index_of(traffic_class)];
    return action_of(tenants[tenant].limits.overload, of_class.overload, of_class.queue_time);
  }
  // Whether any segment drops.
  [[nodiscard]] bool drops() const;
  // The greatest precedence among the requests of the model that wait for a replica, and not for a limit of their own;
  // only of those for which no replica had room at the last visit, if `saturated`. O(tenants that wait).
  std::optional<Precedence> first_waiter(ModelQueue& model, core::Instant now, bool saturated);
  // The greatest precedence to which segments give way now, if there is one.
  std::optional<Precedence> overloaded_for(ModelQueue& model, core::Instant now);
  // Whether the queued request gives way to requests of that precedence.
  [[nodiscard]] bool gives_way(const Waiting& waiting, const Precedence& other) const {
    return precedence_of(waiting) < other && action(waiting.tenant, waiting.traffic_class) == OverloadAction::kDrop;
  }
  // Refuses a request of a segment that sheds or drops while one waits that it may not overtake.
  std::optional<Answer> refuse_without_precedence(const Arrival& arrival);
  void drop_outranked(ModelQueue& model, core::Instant now, std::vector<Refused>& refused);

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
      if (gives_way(head, {arrival.traffic_class, tenants[arrival.tenant].limits.tier})) return VisitResult::kPass;
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

  // Admits the request to spare capacity, or queues it for some.
  Answer arrive_deferred(const Arrival& arrival, Record record, const AdmissionController::VerdictOf& verdict_of);
  // Refuses a request that no wait could admit.
  std::optional<Answer> refuse_permanently(const Arrival& arrival);
  Answer refuse_budget(const Arrival& arrival, LimitKind limit, core::Instant affordable);
  Answer refuse_concurrency(const Arrival& arrival);
  Answer refuse_pressure(const Arrival& arrival, std::uint32_t seconds_least = 1);
  Answer refuse_full(const Arrival& arrival);
  Answer refuse_dropped(std::uint32_t tenant, Class traffic_class, std::uint64_t tokens, ModelQueue& model,
                        core::Instant now);
  std::optional<Answer> refuse_by_own_limit(const Arrival& arrival, LimitKind limit, core::Instant deadline,
                                            bool may_wait);
  Refused expire(const Waiting& waiting, core::Instant now);

  struct Call {  // State of one call of next().
    core::Instant now;
    const AdmissionController::VerdictOf& verdict_of;
    Next result;
    std::size_t verdicts = 0;
    bool bounded = false;
    std::array<bool, 2>
        // The budget of the class does not suffice for its first request, and no later one may overtake it.
        class_exhausted{};
    std::optional<std::uint32_t> model_of_exhausted_class;
    ModelQueue* model = nullptr;             // The one that is visited.
    std::optional<Precedence> first_waiter;  // Segments that drop give way to it. Empty if none drops.
  };
  void drain(std::uint32_t number, ModelQueue& model, Call& call);
  void drain_deferred(std::uint32_t number, ModelQueue& model, Call& call);
  void take(const Waiting& taken, std::uint32_t number, Call& call);
  VisitResult visit(const Waiting& head, std::uint32_t number, std::array<bool, 2>& rejected, Call& call,
                    std::vector<Record*>& blocked_records);
};

}  // namespace penstock::admission
