// The GPU cost of pools and of the tokens of tenants since a time, as plain data that outlives a process.
#pragma once

#include <algorithm>
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

// The row of the pool, which is made where it is missing.
[[nodiscard]] PoolGpuCost& row_of(std::vector<PoolGpuCost>& rows, std::string_view pool);

// The row of a tenant and model, which is made where it is missing. After `rows_max` rows it is that of the tenant and
// model `other`.
template <class Row>
[[nodiscard]] Row& row_of(std::vector<Row>& rows, std::string_view tenant, std::string_view model, std::size_t rows_max,
                          std::string_view other) {
  const auto find = [&] {
    return std::find_if(rows.begin(), rows.end(),
                        [&](const Row& row) { return row.tenant == tenant && row.model == model; });
  };
  auto found = find();
  if (found == rows.end() && rows.size() >= rows_max) {
    tenant = model = other;
    found = find();
  }
  if (found != rows.end()) return *found;
  Row& made = rows.emplace_back();
  made.tenant = tenant;
  made.model = model;
  return made;
}

// Adds the sums of another time to `costs`, with the rows of row_of().
void add_costs(GpuCosts& costs, const GpuCosts& more, std::size_t tenants_max, std::string_view other);

}  // namespace penstock::decision
