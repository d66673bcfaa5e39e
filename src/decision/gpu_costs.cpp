#include "decision/gpu_costs.h"

#include <algorithm>

namespace penstock::decision {
namespace {

PoolGpuCost& row_of(std::vector<PoolGpuCost>& rows, const std::string& pool) {
  const auto found = std::find_if(rows.begin(), rows.end(), [&](const PoolGpuCost& row) { return row.pool == pool; });
  return found != rows.end() ? *found : rows.emplace_back(PoolGpuCost{pool});
}

// Null if there is none.
TenantGpuCost* find(std::vector<TenantGpuCost>& rows, std::string_view tenant, std::string_view model) {
  const auto found = std::find_if(rows.begin(), rows.end(),
                                  [&](const TenantGpuCost& row) { return row.tenant == tenant && row.model == model; });
  return found != rows.end() ? &*found : nullptr;
}

}  // namespace

void add_costs(GpuCosts& costs, const GpuCosts& more, std::size_t tenants_max, std::string_view other) {
  costs.since_unix_ms = std::min(costs.since_unix_ms, more.since_unix_ms);
  costs.is_divided = costs.is_divided || more.is_divided;
  costs.undivided += more.undivided;
  for (const PoolGpuCost& added : more.pools) {
    PoolGpuCost& row = row_of(costs.pools, added.pool);
    row.gpu_time += added.gpu_time;
    row.usd += added.usd;
  }
  for (const TenantGpuCost& added : more.tenants) {
    TenantGpuCost* row = find(costs.tenants, added.tenant, added.model);
    const bool is_full = costs.tenants.size() >= tenants_max;
    if (row == nullptr && is_full) row = find(costs.tenants, other, other);
    if (row == nullptr) {
      row = &costs.tenants.emplace_back();
      row->tenant = is_full ? other : added.tenant;
      row->model = is_full ? other : added.model;
    }
    row->completed += added.completed;
    row->within_slo += added.within_slo;
    row->usd += added.usd;
    row->recent_input += added.recent_input;
    row->recent_output += added.recent_output;
  }
}

}  // namespace penstock::decision
