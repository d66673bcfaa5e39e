// Refusals that need nothing of a request but its tenant.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "dispatch/dispatcher.h"

namespace penstock::dispatch {

std::optional<Refusal> Dispatcher::early_refusal(std::uint32_t number, core::Instant now) {
  const Tenant& tenant = options_.tenants[number];
  if (tenant.over_budget == OverBudget::kQueue) return std::nullopt;
  const admission::AdmissionController::Tenant state = admission_.tenant(number, now);
  std::optional<Refusal> refusal;
  if (tenant.concurrent > 0 && state.running >= tenant.concurrent) {
    refusal = Refusal{RefusalReason::kTooManyRequests,
                      fmt::format("tenant {} has {} requests in flight, the limit (concurrent) is {}; retry when one "
                                  "has ended",
                                  tenant.name, state.running, tenant.concurrent),
                      1, false};
  } else if (state.available_tokens < 1.0) {
    constexpr double kRetryMin = 1.0, kRetryMax = 60.0;
    const double seconds = std::ceil((1.0 - state.available_tokens) * 60.0 / tenant.budget.tokens_per_minute);
    refusal = Refusal{RefusalReason::kTokenBudgetExceeded,
                      fmt::format("tenant {} has used its budget of {} tokens per minute; retry later", tenant.name,
                                  tenant.budget.tokens_per_minute),
                      static_cast<std::uint32_t>(std::clamp(seconds, kRetryMin, kRetryMax)), false};
  }
  if (!refusal) return std::nullopt;
  ++counters_.refused;
  count(*refusal);
  ledger::Entry entry;
  entry.tenant = tenant.name;
  entry.model = "unknown";  // The body that names it is not read.
  ledger_.refuse(entry);
  return refusal;
}

}  // namespace penstock::dispatch
