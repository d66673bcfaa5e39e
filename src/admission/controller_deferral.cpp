// The part of AdmissionController that lets requests wait for spare capacity.
#include <algorithm>
#include <utility>

#include "admission/controller_state.h"

namespace penstock::admission {
namespace {

// Verdicts that may find no spare capacity in one visit, so that one long prompt does not hold up those of other
// tenants, and thousands of requests cost no more than a few.
constexpr std::size_t kFullMax = 4;
// Longer prompts, in tokens, find spare capacity less often. They have a tier of their own below that of their tenant,
// so that they do not hold up its shorter prompts.
constexpr std::uint32_t kLongPrompt = 8'192;

std::int32_t deferred_tier(std::int32_t tier, std::uint32_t prompt_tokens) {
  return 2 * tier - (prompt_tokens > kLongPrompt ? 1 : 0);
}

}  // namespace

Answer ControllerState::arrive_deferred(const Arrival& arrival, Record record,
                                        const AdmissionController::VerdictOf& verdict_of) {
  ModelQueue& model = queue_of(arrival.model);
  TenantState& tenant = tenants[arrival.tenant];
  record.deadline = arrival.deadline;
  const bool first = model.deferred.size() == 0 && record.limit == LimitKind::kNothing;
  if (first && !first_waiter(model, arrival.now, false) && verdict_of(arrival.ticket) == Verdict::kAdmit) {
    admit(record, arrival.now);
    records.emplace(arrival.ticket, record);
    return {};
  }
  Waiting waiting;
  waiting.ticket = arrival.ticket;
  waiting.tenant = arrival.tenant;
  waiting.traffic_class = arrival.traffic_class;
  waiting.tokens = record.tokens;
  waiting.tier = deferred_tier(tenant.limits.tier, arrival.estimate.prompt_tokens);
  waiting.since = arrival.now;
  waiting.deadline = *arrival.deferred_until;
  waiting.needed = arrival.claimed().needed;
  if (!model.deferred.push(waiting)) return refuse_full(arrival);
  record.deferred = true;
  records.emplace(arrival.ticket, record);
  ++tenant.waiting;
  ++tenant.decisions[index_of(Decision::kQueue)];
  Answer answer{Decision::kQueue, 0, {}, true};
  answer.deferred = true;
  return answer;
}

void ControllerState::drain_deferred(std::uint32_t number, ModelQueue& model, Call& call) {
  if (model.deferred.size() == 0 || first_waiter(model, call.now, false)) return;
  std::size_t full = 0;
  while (model.deferred.size() > 0) {
    if (call.result.admitted.size() == AdmissionController::kAdmittedMax) {
      call.bounded = true;
      return;
    }
    const auto taken = model.deferred.pop([&](const Waiting& head) {
      const LimitKind limit = own_limit(head, call.now);
      records.find(head.ticket).value().limit = limit;
      if (limit == LimitKind::kClassBudget) return VisitResult::kStop;
      if (limit != LimitKind::kNothing) return VisitResult::kPass;
      if (call.verdict_of(head.ticket) == Verdict::kAdmit) return VisitResult::kTake;
      return ++full == kFullMax ? VisitResult::kStop : VisitResult::kPass;
    });
    if (!taken) return;
    take(*taken, number, call);
  }
}

std::vector<std::uint64_t> AdmissionController::make_due(core::Instant now) {
  std::vector<std::uint64_t> tickets;
  for (auto& [number, model] : state_->models) {
    for (Waiting& waiting : model.deferred.expired(now)) {
      Record& record = state_->records.find(waiting.ticket).value();
      record.deferred = false;
      waiting.tier = state_->tenants[waiting.tenant].limits.tier;
      waiting.since = now;
      waiting.deadline = record.deadline;
      waiting.due = true;
      const bool queued = model.queue.push(waiting);
      PENSTOCK_ASSERT(queued, "a request that is due is queued whatever the limits");
      tickets.push_back(waiting.ticket);
    }
  }
  return tickets;
}

std::size_t AdmissionController::deferred() const {
  std::size_t sum = 0;
  for (const auto& [number, model] : state_->models) sum += model.deferred.size();
  return sum;
}

std::uint64_t AdmissionController::deferred_tokens() const {
  std::uint64_t sum = 0;
  for (const auto& [number, model] : state_->models) sum += model.deferred.tokens();
  return sum;
}

core::Instant AdmissionController::next_due() const {
  core::Instant next = core::kNever;
  for (const auto& [number, model] : state_->models) next = std::min(next, model.deferred.next_deadline());
  return next;
}

}  // namespace penstock::admission
