// GPU cost of tokens.
#pragma once

#include <optional>

#include "decision/run_result.h"

namespace penstock::report {

// USD per 1M tokens; empty without such tokens. Prompt tokens bear RunResult::input_cost_share of the GPU cost, output
// tokens the rest. Idle time and tokens of failed requests make the others dearer.
struct TokenCosts {
  std::optional<double> input, output;
  std::optional<double> input_at_slo, output_at_slo;  // Tokens of requests within the SLO alone share the whole cost.
};
[[nodiscard]] TokenCosts token_costs(const decision::RunResult& result);

// The GPU cost of the tokens of a tenant (USD); empty where the run has no tokens.
[[nodiscard]] std::optional<double> gpu_cost_of(const decision::TenantResult& tenant,
                                                const decision::RunResult& result);

}  // namespace penstock::report
