// Refusals that need nothing of a request but its tenant.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "admission/refusal_text.h"
#include "dispatch/dispatcher.h"

namespace penstock::dispatch {
namespace {

// The refusal by a limit of the tenant that is used up.
std::optional<Refusal> refusal_by_limit(const Tenant& tenant, const admission::AdmissionController::Tenant& state) {
  if (state.is_full)
    return Refusal{
        RefusalReason::kTooManyRequests,
        admission::concurrency_sentence(tenant.name, state.running, state.running_elsewhere, tenant.concurrent), 1,
        false};
  if (state.available_tokens >= 1.0) return std::nullopt;
  constexpr double kRetryMin = 1.0, kRetryMax = 60.0;
  const double seconds = std::ceil((1.0 - state.available_tokens) * 60.0 / tenant.budget.tokens_per_minute);
  return Refusal{RefusalReason::kTokenBudgetExceeded,
                 fmt::format("tenant {} has used its budget of {} tokens per minute; retry later", tenant.name,
                             tenant.budget.tokens_per_minute),
                 static_cast<std::uint32_t>(std::clamp(seconds, kRetryMin, kRetryMax)), false};
}

}  // namespace

std::optional<Refusal> Dispatcher::early_refusal(std::uint32_t number, core::Instant now) {
  const Tenant& tenant = options_.tenants[number];
  if (tenant.over_budget != OverBudget::kReject) return std::nullopt;
  std::optional<Refusal> refusal = refusal_by_limit(tenant, admission_.tenant(number, now));
  if (!refusal) return std::nullopt;
  refusal->rate_limits = admission_.rate_limits(number, now);
  ++counters_.refused;
  count(*refusal);
  ledger::Entry entry;
  entry.tenant = tenant.name;
  entry.model = "unknown";  // The body that names it is not read.
  ledger_.refuse(entry);
  return refusal;
}

}  // namespace penstock::dispatch
