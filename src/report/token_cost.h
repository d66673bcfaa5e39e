// GPU cost of tokens.
#pragma once

#include <optional>

#include "decision/run_result.h"
#include "decision/token_count.h"

namespace penstock::report {

// USD per 1M tokens; empty without such tokens. Prompt tokens bear the GPU cost of prompts, output tokens the rest.
// Idle time and tokens of failed requests make the others dearer.
struct TokenCosts {
  std::optional<double> input, output;
  std::optional<double> input_at_slo, output_at_slo;  // Tokens of requests within the SLO alone share the whole cost.
};
[[nodiscard]] TokenCosts token_costs(const decision::TokenCost& cost, const decision::TokenCount& completed,
                                     const decision::TokenCount& within_slo);
[[nodiscard]] TokenCosts token_costs(const decision::RunResult& result);

// The part of a cost that falls to some of all tokens.
[[nodiscard]] decision::TokenCost part_of(const decision::TokenCost& cost, const decision::TokenCount& own,
                                          const decision::TokenCount& all);
// The GPU cost of the tokens of a tenant (USD); empty where the run has no tokens.
[[nodiscard]] std::optional<double> gpu_cost_of(const decision::TenantResult& tenant,
                                                const decision::RunResult& result);

}  // namespace penstock::report
