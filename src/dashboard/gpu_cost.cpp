#include "dashboard/gpu_cost.h"

#include <nlohmann/json.hpp>
#include <utility>

namespace penstock::dashboard {
namespace {

using controller::TenantTokens;
using decision::TokenCost;
using decision::TokenCount;
using CostJson = nlohmann::ordered_json;

void add(TokenCount& sum, const TokenCount& tokens) {
  sum.input += tokens.input;
  sum.output += tokens.output;
}

CostJson usd(const std::optional<double>& value) { return value ? CostJson(*value) : CostJson(nullptr); }

// `own` is empty where the cost is unknown.
CostJson row(const TenantTokens& tokens, const std::optional<TokenCost>& own) {
  const report::TokenCosts per_1m =
      own ? report::token_costs(*own, tokens.completed, tokens.within_slo) : report::TokenCosts{};
  return {{"prompt_tokens", tokens.completed.input},
          {"output_tokens", tokens.completed.output},
          {"prompt_tokens_at_slo", tokens.within_slo.input},
          {"output_tokens_at_slo", tokens.within_slo.output},
          {"gpu_cost", usd(own ? std::optional{own->input + own->output} : std::nullopt)},
          {"gpu_usd_per_1m_tokens",
           {{"input", usd(per_1m.input)},
            {"output", usd(per_1m.output)},
            {"input_at_slo", usd(per_1m.input_at_slo)},
            {"output_at_slo", usd(per_1m.output_at_slo)}}}};
}

}  // namespace

nlohmann::ordered_json gpu_cost_json(const std::optional<TokenCost>& cost, std::span<const TenantTokens> tenants,
                                     core::Duration period) {
  TenantTokens all;
  for (const TenantTokens& tenant : tenants) {
    add(all.completed, tenant.completed);
    add(all.within_slo, tenant.within_slo);
  }
  CostJson made{{"for_s", core::to_seconds(period)}, {"all", row(all, cost)}, {"tenants", CostJson::array()}};
  for (const TenantTokens& tenant : tenants) {
    CostJson one{{"tenant", tenant.tenant}};
    one.update(
        row(tenant, cost ? std::optional{report::part_of(*cost, tenant.completed, all.completed)} : std::nullopt));
    made["tenants"].push_back(std::move(one));
  }
  return made;
}

}  // namespace penstock::dashboard
