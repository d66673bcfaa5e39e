#include "report/token_cost.h"

#include <cstdint>

namespace penstock::report {
namespace {

std::optional<double> per_million(double cost, std::uint64_t tokens) {
  if (tokens == 0) return std::nullopt;
  return 1e6 * cost / static_cast<double>(tokens);
}

}  // namespace

TokenCosts token_costs(const decision::RunResult& result) {
  const double input = result.cost * result.input_cost_share, output = result.cost - input;
  return {per_million(input, result.completed_tokens.input), per_million(output, result.completed_tokens.output),
          per_million(input, result.goodput_tokens.input), per_million(output, result.goodput_tokens.output)};
}

std::optional<double> gpu_cost_of(const decision::TenantResult& tenant, const decision::RunResult& result) {
  std::uint64_t input = 0, output = 0;
  for (const decision::TenantResult& each : result.tenants) {
    input += each.prompt_tokens;
    output += each.output_tokens;
  }
  if (input + output == 0) return std::nullopt;
  const auto part = [](std::uint64_t own, std::uint64_t all) {
    return all == 0 ? 0.0 : static_cast<double>(own) / static_cast<double>(all);
  };
  return result.cost * (result.input_cost_share * part(tenant.prompt_tokens, input) +
                        (1.0 - result.input_cost_share) * part(tenant.output_tokens, output));
}

}  // namespace penstock::report
