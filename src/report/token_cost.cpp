#include "report/token_cost.h"

#include <cstdint>

namespace penstock::report {
namespace {

std::optional<double> per_million(double cost, std::uint64_t tokens) {
  if (tokens == 0) return std::nullopt;
  return 1e6 * cost / static_cast<double>(tokens);
}

decision::TokenCost cost_of(const decision::RunResult& result) {
  const double input = result.cost * result.input_cost_share;
  return {input, result.cost - input};
}

}  // namespace

TokenCosts token_costs(const decision::TokenCost& cost, const decision::TokenCount& completed,
                       const decision::TokenCount& within_slo) {
  return {per_million(cost.input, completed.input), per_million(cost.output, completed.output),
          per_million(cost.input, within_slo.input), per_million(cost.output, within_slo.output)};
}

TokenCosts token_costs(const decision::RunResult& result) {
  return token_costs(cost_of(result), result.completed_tokens, result.goodput_tokens);
}

decision::TokenCost part_of(const decision::TokenCost& cost, const decision::TokenCount& own,
                            const decision::TokenCount& all) {
  const auto part = [](std::uint64_t some, std::uint64_t whole) {
    return whole == 0 ? 0.0 : static_cast<double>(some) / static_cast<double>(whole);
  };
  return {cost.input * part(own.input, all.input), cost.output * part(own.output, all.output)};
}

std::optional<double> gpu_cost_of(const decision::TenantResult& tenant, const decision::RunResult& result) {
  decision::TokenCount all;
  for (const decision::TenantResult& each : result.tenants) all += {each.prompt_tokens, each.output_tokens};
  if (all.input + all.output == 0) return std::nullopt;
  const decision::TokenCost part = part_of(cost_of(result), {tenant.prompt_tokens, tenant.output_tokens}, all);
  return part.input + part.output;
}

}  // namespace penstock::report
