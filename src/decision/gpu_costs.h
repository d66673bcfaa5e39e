// The GPU cost of pools and of the tokens of tenants since a time, as plain data that outlives a process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/time.h"
#include "decision/token_count.h"

namespace penstock::decision {

struct PoolGpuCost {
  std::string pool;
  core::Duration gpu_time{};
  double usd = 0.0;
};

// Tokens of the completed requests of a tenant for a model, and of those of them that missed no SLO.
struct TenantTokens {
  std::string tenant, model;
  TokenCount completed{}, within_slo{};
};

struct TenantGpuCost : TenantTokens {
  TokenCost usd{};
  double recent_input = 0.0, recent_output = 0.0;  // Tokens, of which those of an hour ago count half.
};

struct GpuCosts {
  std::int64_t since_unix_ms = 0;
  bool is_divided = false;  // It is known which part of the cost is that of prompts.
  TokenCost undivided{};    // Waits for the first tokens.
  std::vector<PoolGpuCost> pools{};
  std::vector<TenantGpuCost> tenants{};
};

// Adds the sums of another time to `costs`. A pair of tenant and model without a row gets one; after `tenants_max` rows
// it is added to the row of the tenant and model `other`.
void add_costs(GpuCosts& costs, const GpuCosts& more, std::size_t tenants_max, std::string_view other);

}  // namespace penstock::decision
