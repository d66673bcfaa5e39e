#include "dispatch/refusal.h"

#include <fmt/format.h>

namespace penstock::dispatch {
namespace {

RefusalReason reason_of(admission::Decision decision) {
  switch (decision) {
    case admission::Decision::kRefuseBudget: return RefusalReason::kTokenBudgetExceeded;
    case admission::Decision::kRefuseConcurrency: return RefusalReason::kTooManyRequests;
    case admission::Decision::kRefuseQueueFull: return RefusalReason::kQueueFull;
    case admission::Decision::kRefuseQueueTime: return RefusalReason::kQueueTimeout;
    case admission::Decision::kRefuseDropped: return RefusalReason::kDropped;
    default: return RefusalReason::kEnginesFull;
  }
}

}  // namespace

const char* to_string(RefusalReason reason) {
  switch (reason) {
    case RefusalReason::kModelNotFound: return "model_not_found";
    case RefusalReason::kContextLengthExceeded: return "context_length_exceeded";
    case RefusalReason::kTokenBudgetExceeded: return "token_budget_exceeded";
    case RefusalReason::kTooManyRequests: return "too_many_requests";
    case RefusalReason::kQueueFull: return "queue_full";
    case RefusalReason::kQueueTimeout: return "queue_timeout";
    case RefusalReason::kEnginesFull: return "engines_full";
    case RefusalReason::kNoReplica: return "no_replica";
    case RefusalReason::kDropped: return "dropped";
  }
  return "";
}

Refusal refusal_of(const admission::Answer& answer, std::string_view model, bool served) {
  Refusal refusal{reason_of(answer.decision), answer.why, answer.retry_after_s, !answer.own_limit};
  const bool own_limit =
      refusal.reason == RefusalReason::kTokenBudgetExceeded || refusal.reason == RefusalReason::kTooManyRequests;
  if (!own_limit && !served) {
    refusal.reason = RefusalReason::kNoReplica;
    refusal.message = fmt::format("no replica serves the model {:?} now; {}", model, answer.why);
  }
  return refusal;
}

Refusal not_known_yet(std::string_view model) {
  return {RefusalReason::kNoReplica,
          fmt::format("the model {:?} is not known yet, because the gateway has not read the models of all replicas; "
                      "retry in 1 s",
                      model.substr(0, 200)),
          1, false};
}

}  // namespace penstock::dispatch
