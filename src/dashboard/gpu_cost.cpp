#include "dashboard/gpu_cost.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "report/token_cost.h"

namespace penstock::dashboard {
namespace {

using decision::TenantGpuCost;
using CostJson = nlohmann::ordered_json;

CostJson usd(const std::optional<double>& value) { return value ? CostJson(*value) : CostJson(nullptr); }

CostJson row(const TenantGpuCost& own, bool is_known) {
  const report::TokenCosts per_1m =
      is_known ? report::token_costs(own.usd, own.completed, own.within_slo) : report::TokenCosts{};
  return {{"prompt_tokens", own.completed.input},
          {"output_tokens", own.completed.output},
          {"prompt_tokens_at_slo", own.within_slo.input},
          {"output_tokens_at_slo", own.within_slo.output},
          {"gpu_cost", usd(is_known ? std::optional{own.usd.input + own.usd.output} : std::nullopt)},
          {"gpu_usd_per_1m_tokens",
           {{"input", usd(per_1m.input)},
            {"output", usd(per_1m.output)},
            {"input_at_slo", usd(per_1m.input_at_slo)},
            {"output_at_slo", usd(per_1m.output_at_slo)}}}};
}

}  // namespace

nlohmann::ordered_json gpu_cost_json(const decision::GpuCosts& costs, core::Duration period) {
  TenantGpuCost all;
  all.usd = costs.undivided;
  CostJson tenants = CostJson::array();
  for (const TenantGpuCost& own : costs.tenants) {
    all.completed += own.completed;
    all.within_slo += own.within_slo;
    all.usd += own.usd;
    CostJson one{{"tenant", own.tenant}, {"model", own.model}};
    one.update(row(own, costs.is_divided));
    tenants.push_back(std::move(one));
  }
  return {{"for_s", core::to_seconds(period)}, {"all", row(all, costs.is_divided)}, {"tenants", std::move(tenants)}};
}

}  // namespace penstock::dashboard
