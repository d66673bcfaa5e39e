#include "decision/gpu_costs.h"

namespace penstock::decision {
PoolGpuCost& row_of(std::vector<PoolGpuCost>& rows, std::string_view pool) {
  const auto found = std::find_if(rows.begin(), rows.end(), [&](const PoolGpuCost& row) { return row.pool == pool; });
  return found != rows.end() ? *found : rows.emplace_back(PoolGpuCost{std::string{pool}});
}

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
    TenantGpuCost& row = row_of(costs.tenants, added.tenant, added.model, tenants_max, other);
    row.completed += added.completed;
    row.within_slo += added.within_slo;
    row.usd += added.usd;
    row.recent_input += added.recent_input;
    row.recent_output += added.recent_output;
  }
}

}  // namespace penstock::decision
