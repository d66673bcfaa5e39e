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

void GatewayTotals::summarize(const Gateway& gateway, decision::RunResult& result) const {
  result.retried = counters.retried;
  result.clamped = counters.clamped;
  std::map<std::string, std::uint64_t> refusals;
  for (std::size_t i = 0; i < counters.refusals.size(); ++i)
    if (counters.refusals[i] > 0) refusals[to_string(static_cast<dispatch::RefusalReason>(i))] = counters.refusals[i];
  for (const auto& [reason, count] : refusals) result.failures.push_back({reason, count});
  if (!gateway.classes) return;
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

std::string GatewayTotals::contradiction(const ClientTotals& clients, const dispatch::DispatchOptions& exported) const {
  ledger::Sums ledger;
  for (const auto& [key, each] : sums) ledger += each;
  const auto refusals = std::accumulate(counters.refusals.begin(), counters.refusals.end(), std::uint64_t{0});
  struct Equality {
    std::string_view left, right;
    std::uint64_t a, b;
    bool is_known = true;
  };
  const Equality equalities[] = {
      {"requests of clients", "requests that ended at the gateway", clients.sent,
       ledger.closed + ledger.refused + clients.forgotten},
      {"completed requests of clients", "those of the ledger", clients.completed, ledger.completed},
      {"tokens that clients received", "those of the ledger", clients.received_tokens, ledger.output_tokens},
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
