// The refusals of AdmissionController, each with its sentence.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "admission/controller_state.h"
#include "admission/refusal_text.h"

namespace penstock::admission {

std::optional<Answer> ControllerState::refuse_permanently(const Arrival& arrival) {
  const BudgetClaim claim = arrival.claimed();
  const auto larger = [&](const BudgetLimits& budget) {
    return budget.limited() && static_cast<double>(claim.needed) > budget.capacity();
  };
  const TenantState& tenant = tenants[arrival.tenant];
  if (larger(tenant.limits.budget))
    return refuse(
        arrival.tenant, Decision::kRefuseBudget, 0,
        too_large_sentence(tenant.limits.budget, fmt::format("tenant {} (burst)", tenant.limits.name), claim));
  const BudgetLimits& of_class = limits.classes[index_of(arrival.traffic_class)].budget;
  if (larger(of_class))
    return refuse(arrival.tenant, Decision::kRefuseBudget, 0,
                  too_large_sentence(of_class, class_option(arrival.traffic_class, "tokens_per_minute"), claim));
  return std::nullopt;
}

Answer ControllerState::refuse_budget(const Arrival& arrival, LimitKind limit, core::Instant affordable) {
  const std::uint32_t seconds = whole_seconds(affordable - arrival.now);
  const TenantState& tenant = tenants[arrival.tenant];
  const bool of_class = limit == LimitKind::kClassBudget;
  const TokenBudget& budget = of_class ? class_budgets[index_of(arrival.traffic_class)] : tenant.budget;
  const std::string whose = of_class ? class_option(arrival.traffic_class, "tokens_per_minute")
                                     : fmt::format("tenant {} ({})", tenant.limits.name,
                                                   budget.limits().burst > 0.0 ? "burst" : "tokens_per_minute");
  return refuse(arrival.tenant, Decision::kRefuseBudget, seconds,
                budget_sentence(budget.limits(), whose, budget.available(arrival.now), arrival.claimed(), seconds));
}

Answer ControllerState::refuse_concurrency(const Arrival& arrival) {
  const TenantState& tenant = tenants[arrival.tenant];
  return refuse(
      arrival.tenant, Decision::kRefuseConcurrency, 1,
      concurrency_sentence(tenant.limits.name, tenant.running, tenant.running_elsewhere, tenant.limits.concurrent));
}

Answer ControllerState::refuse_pressure(const Arrival& arrival, std::uint32_t seconds_least) {
  ModelQueue& model = queue_of(arrival.model);
  const std::uint32_t seconds = std::max(seconds_least, retry_after_s(model.queue.tokens() + arrival.estimate.total(),
                                                                      model.admit_rate.tokens_per_s(arrival.now)));
  const TenantLimits& tenant = tenants[arrival.tenant].limits;
  const bool no_queue_time = limits.classes[index_of(arrival.traffic_class)].queue_time == core::Duration{};
  const std::string option = no_queue_time || !tenant.overload
                                 ? class_option(arrival.traffic_class, no_queue_time ? "queue_time" : "overload: shed")
                                 : fmt::format("overload: shed of tenant {}", tenant.name);
  return refuse(
      arrival.tenant, Decision::kRefusePressure, seconds,
      fmt::format("all replicas are full (kv_throttle, kv_reject, prefill_tokens_per_replica), and {} requests do "
                  "not wait ({}); {} wait; retry in {} s",
                  to_string(arrival.traffic_class), option, model.queue.size(), seconds));
}

Answer ControllerState::refuse_full(const Arrival& arrival) {
  ModelQueue& model = queue_of(arrival.model);
  if (arrival.deferred_until)
    return refuse(
        arrival.tenant, Decision::kRefuseQueueFull, kRetryAfterMax,
        fmt::format("{} requests of {} tokens wait for spare capacity already, the most are {}; retry in {} s",
                    model.deferred.size(), model.deferred.tokens(), limits.deferred.requests, kRetryAfterMax));
  const std::uint64_t tokens = model.queue.tokens(arrival.traffic_class);
  const std::uint32_t seconds = retry_after_s(tokens, model.admit_rate.tokens_per_s(arrival.now));
  return refuse(arrival.tenant, Decision::kRefuseQueueFull, seconds,
                fmt::format("{} {} requests of {} tokens wait already; the queue is full (queue_requests {}, {} of one "
                            "tenant, {} tokens); retry "
                            "in {} s",
                            model.queue.size(arrival.traffic_class), to_string(arrival.traffic_class), tokens,
                            limits.queue.requests, limits.queue.requests_per_tenant, limits.queue.tokens, seconds));
}

Answer ControllerState::refuse_dropped(std::uint32_t tenant, Class traffic_class, std::uint64_t tokens,
                                       ModelQueue& model, core::Instant now) {
  const std::uint32_t seconds = std::max(
      whole_seconds(kGiveWay), retry_after_s(model.queue.tokens() + tokens, model.admit_rate.tokens_per_s(now)));
  return refuse(
      tenant, Decision::kRefuseDropped, seconds,
      fmt::format(
          "a request with precedence waits for a replica or did so just now, and {} requests of tenant {} give way "
          "(overload: drop); {} other requests wait; retry in {} s",
          to_string(traffic_class), tenants[tenant].limits.name, model.queue.size(), seconds));
}

// Refuses at once a request whose limit would be lifted only after its deadline.
std::optional<Answer> ControllerState::refuse_by_own_limit(const Arrival& arrival, LimitKind limit,
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

Refused ControllerState::expire(const Waiting& waiting, core::Instant now) {
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
  const bool cold = waiting.deadline - waiting.since > limits.classes[index_of(waiting.traffic_class)].queue_time;
  const char* option = waiting.due ? "completion_window" : cold ? "cold_start_queue_time" : "queue_time";
  Answer answer =
      refuse(waiting.tenant, Decision::kRefuseQueueTime, seconds,
             fmt::format("the request waited {:.1f} s {}, the maximum of {}; {} other requests wait; retry in {} s",
                         core::to_seconds(now - waiting.since), what, class_option(waiting.traffic_class, option),
                         model.queue.size(), seconds));
  answer.own_limit = limit != LimitKind::kNothing || waited_for_own_limit;
  return {waiting.ticket, std::move(answer), waiting.due};
}

}  // namespace penstock::admission
