// What another gateway reports about its budgets, damaged in whatever way: refused in one line, or figures that leave
// every budget in a state from which it recovers.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string_view>

#include "dispatch/dispatcher.h"
#include "gateway/budget_document.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace penstock;
  const auto report = gateway::read_budget_document({reinterpret_cast<const char*>(data), size});
  if (!report) {
    const std::string message = report.error().message();
    if (!message.starts_with("the gateway's budgets: ") || message.find('\n') != std::string::npos) std::abort();
    return 0;
  }
  dispatch::DispatchOptions options;
  options.tenants.resize(1);
  options.tenants[0].name = "shop";
  options.tenants[0].budget = {600.0, 1'000.0};
  const core::Instant now{std::chrono::hours{1'000}};
  dispatch::Dispatcher dispatcher{options, nullptr, now, core::Duration{}};
  dispatch::PeerBudgets peers{"self", now - std::chrono::hours{1}};
  dispatch::BudgetReport next = *report;
  for (int i = 0; i < 3; ++i) {
    dispatcher.change_budgets(peers.take(next, now), now);
    ++next.number;
    for (auto& [name, use] : next.tenants) use.taken /= 2;
  }
  const double missing = dispatcher.budget_report(now + std::chrono::hours{1}).tenants.empty() ? 0.0 : 1.0;
  if (missing > 0.0 || !std::isfinite(dispatcher.tenant(0, now).available_tokens)) std::abort();
  const auto again = gateway::read_budget_document(gateway::budget_document(*report));
  if (!again || again->tenants.size() != report->tenants.size()) std::abort();
  return 0;
}
