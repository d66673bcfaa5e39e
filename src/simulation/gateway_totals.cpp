#include "simulation/gateway_totals.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <string_view>

namespace penstock::simulation {
GatewayTotals GatewayTotals::with(const dispatch::Dispatcher& dispatcher, core::Instant now) const {
  GatewayTotals made = *this;
  made.counters += dispatcher.counters();
  for (const auto& [key, each] : dispatcher.balance().sums()) made.sums[key] += each;
  if (dispatcher.options().latency_meters)
    for (const dispatch::ModelStatus& model : dispatcher.overview(now).models)
      made.first_tokens += model.ttft_ms.count();
  if (dispatcher.options().traffic_log)
    for (const dispatch::TrafficEvent& event : dispatcher.traffic(0, dispatch::TrafficLog::kEventsMax).events)
      made.arrivals += event.kind == dispatch::TrafficEvent::Kind::kArrival ? 1 : 0;
  return made;
}

GatewayTotals GatewayTotals::since(const GatewayTotals& earlier) const {
  GatewayTotals made = *this;
  made.counters.retried -= earlier.counters.retried;
  made.counters.clamped -= earlier.counters.clamped;
  made.counters.truncated_prompts -= earlier.counters.truncated_prompts;
  made.counters.truncated_prompt_tokens -= earlier.counters.truncated_prompt_tokens;
  made.counters.deferral -= earlier.counters.deferral;
  for (std::size_t i = 0; i < made.counters.refusals.size(); ++i)
    made.counters.refusals[i] -= earlier.counters.refusals[i];
  for (const auto& [key, before] : earlier.sums) {
    ledger::Sums& each = made.sums[key];
    each.closed -= before.closed;
    each.completed -= before.completed;
    each.refused -= before.refused;
    each.prompt_tokens -= before.prompt_tokens;
    each.cached_tokens -= before.cached_tokens;
    each.output_tokens -= before.output_tokens;
    each.cost -= before.cost;
  }
  return made;
}

void GatewayTotals::summarize(const Gateway& gateway, decision::RunResult& result) const {
  result.retried = counters.retried;
  result.clamped = counters.clamped;
  result.truncated_prompts = counters.truncated_prompts;
  result.deferral = {counters.deferral.deferred, counters.deferral.sent_spare, counters.deferral.sent_due,
                     counters.deferral.missed};
  std::map<std::string, std::uint64_t> refusals;
  for (std::size_t i = 0; i < counters.refusals.size(); ++i)
    if (counters.refusals[i] > 0) refusals[to_string(static_cast<dispatch::RefusalReason>(i))] = counters.refusals[i];
  for (const auto& [reason, count] : refusals) result.failures.push_back({reason, count});
  if (!gateway.limits) return;
  for (const auto& [key, each] : sums) {
    decision::TenantResult& tenant = result.tenants.emplace_back();
    tenant.name = key.first;
    tenant.requests = each.closed + each.refused;
    tenant.completed = each.completed;
    tenant.refused = each.refused;
    tenant.prompt_tokens = each.prompt_tokens;
    tenant.cached_tokens = each.cached_tokens;
    tenant.output_tokens = each.output_tokens;
    tenant.token_cost = each.cost;
    const auto& tenants = gateway.options.tenants;
    const auto configured =
        std::find_if(tenants.begin(), tenants.end(), [&](const auto& known) { return known.name == tenant.name; });
    if (configured == tenants.end() || !configured->budget.limited()) continue;
    const admission::BudgetLimits& budget = configured->budget;
    const double granted = budget.capacity() + budget.tokens_per_minute * result.duration_s / 60.0;
    tenant.budget_share = static_cast<double>(each.prompt_tokens + each.output_tokens) / granted;
  }
}

std::string GatewayTotals::contradiction(const ClientTotals& clients, const dispatch::DispatchOptions& exported,
                                         const LedgerMemory* kept) const {
  ledger::Sums ledger;
  for (const auto& [key, each] : sums) ledger += each;
  const auto refusals = std::accumulate(counters.refusals.begin(), counters.refusals.end(), std::uint64_t{0});
  struct Equality {
    std::string_view left, right;
    std::uint64_t a, b;
    bool is_known = true;
  };
  static const LedgerMemory none;
  const LedgerMemory& memory = kept == nullptr ? none : *kept;
  const bool has_entries = kept != nullptr && ledger.lost == 0;
  // The counts of engines that may be true are charged, so false ones may be charged within a percent.
  const auto billed = [&](std::uint64_t truth) {
    const std::uint64_t most = std::max(truth, ledger.output_tokens), least = std::min(truth, ledger.output_tokens);
    return clients.miscounts && most - least <= truth / 100 + 1 ? truth : ledger.output_tokens;
  };
  const std::uint64_t charged = clients.received_tokens + counters.step_tokens;
  const std::uint64_t kept_or_dropped = clients.received_tokens + clients.lost_tokens + clients.discarded_tokens;
  const Equality equalities[] = {
      {"requests of clients", "requests that ended at the gateway", clients.sent,
       ledger.closed + ledger.refused + clients.forgotten},
      {"completed requests of clients", "those of the ledger", clients.completed, ledger.completed},
      {"tokens that clients received, and the last steps of engines", "tokens of the ledger", charged, billed(charged)},
      {"tokens that engines computed", "those delivered and discarded", clients.computed_tokens,
       std::clamp(clients.computed_tokens, kept_or_dropped, kept_or_dropped + clients.withdrawn)},
      {"prompt tokens of completed requests", "those of the ledger", clients.completed_prompt_tokens,
       memory.completed_prompt_tokens, kept != nullptr},
      {"completed requests without tokens in the ledger", "those expected", memory.unbilled, 0},
      {"prompt tokens of entries", "those of the metrics", memory.closed.prompt_tokens, ledger.prompt_tokens,
       has_entries},
      {"cached tokens of entries", "those of the metrics", memory.closed.cached_tokens, ledger.cached_tokens,
       has_entries},
      {"output tokens of entries", "those of the metrics", memory.closed.output_tokens, ledger.output_tokens,
       has_entries},
      {"granted requests", "opened entries of the ledger", counters.granted, ledger.opened},
      {"refused requests", "those of the ledger", counters.refused, ledger.refused},
      {"refused requests of clients", "refusals by reason", clients.refused, refusals},
      {"first tokens of clients", "exported latencies", clients.first_tokens, first_tokens, exported.latency_meters},
      {"arrivals that policies see", "those of the traffic log", clients.visible, arrivals, exported.traffic_log},
  };
  for (const Equality& each : equalities)
    if (each.is_known && each.a != each.b)
      return fmt::format("{} are {}, {} {}", each.left, each.a, each.right, each.b);
  return {};
}

}  // namespace penstock::simulation
