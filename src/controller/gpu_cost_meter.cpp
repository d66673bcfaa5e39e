#include "controller/gpu_cost_meter.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

namespace penstock::controller {
namespace {

using decision::PoolGpuCost;
using decision::TenantGpuCost;
using decision::TokenCost;

// The row of a tenant and model, which is made where it is missing. The last row is that of all further ones.
template <class Row>
Row& row_of(std::vector<Row>& rows, std::string_view tenant, std::string_view model) {
  const auto find = [&] {
    return std::find_if(rows.begin(), rows.end(),
                        [&](const Row& row) { return row.tenant == tenant && row.model == model; });
  };
  auto found = find();
  if (found == rows.end() && rows.size() >= GpuCostMeter::kTenantsMax) {
    tenant = model = GpuCostMeter::kOther;
    found = find();
  }
  if (found != rows.end()) return *found;
  Row& made = rows.emplace_back();
  made.tenant = tenant;
  made.model = model;
  return made;
}

PoolGpuCost& pool_of(std::vector<PoolGpuCost>& pools, std::string_view name) {
  const auto found =
      std::find_if(pools.begin(), pools.end(), [&](const PoolGpuCost& pool) { return pool.pool == name; });
  return found != pools.end() ? *found : pools.emplace_back(PoolGpuCost{std::string{name}});
}

}  // namespace

void GpuCostMeter::count(core::Instant now, const decision::DecisionTotals& totals, std::span<const std::string> pools,
                         std::span<const decision::TenantTokens> completed) {
  const double kept =
      std::exp2(-core::to_hours(std::max(core::Duration{}, now - counted_to_)) / core::to_hours(kHalfLife));
  counted_to_ = std::max(counted_to_, now);
  for (TenantGpuCost& row : costs_.tenants) {
    row.recent_input *= kept;
    row.recent_output *= kept;
  }
  for (const decision::TenantTokens& tokens : completed) {
    auto& row = row_of(costs_.tenants, tokens.tenant, tokens.model);
    row.completed += tokens.completed;
    row.within_slo += tokens.within_slo;
    row.recent_input += static_cast<double>(tokens.completed.input);
    row.recent_output += static_cast<double>(tokens.completed.output);
  }
  for (std::size_t i = 0; i < pools.size(); ++i) {
    PoolGpuCost &sum = pool_of(costs_.pools, pools[i]), &before = pool_of(of_totals_, pools[i]);
    const PoolGpuCost counted{pools[i], totals.gpu_time(i), totals.cost(i).value_or(0.0)};
    sum.gpu_time += counted.gpu_time - before.gpu_time;
    sum.usd += counted.usd - before.usd;
    before = counted;
  }
  const auto cost = totals.token_cost();
  if (!cost) return;
  costs_.is_divided = true;
  costs_.undivided += {cost->input - token_cost_.input, cost->output - token_cost_.output};
  token_cost_ = *cost;
  divide(costs_.undivided.input, &TenantGpuCost::recent_input, &TokenCost::input);
  divide(costs_.undivided.output, &TenantGpuCost::recent_output, &TokenCost::output);
}

void GpuCostMeter::divide(double& usd, double TenantGpuCost::*recent, double TokenCost::*part) {
  double all = 0.0;
  for (const TenantGpuCost& row : costs_.tenants) all += row.*recent;
  if (all <= 0.0) return;
  for (TenantGpuCost& row : costs_.tenants) {
    const double own = usd * row.*recent / all;
    row.usd.*part += own;
    row_of(counted_, row.tenant, row.model).usd += own;
  }
  usd = 0.0;
}

void GpuCostMeter::restore(decision::GpuCosts costs) {
  costs_ = std::move(costs);
  costs_.since_unix_ms = std::min(costs_.since_unix_ms, started_unix_ms_);
}

core::Duration GpuCostMeter::gpu_time(std::string_view pool) const {
  for (const PoolGpuCost& each : costs_.pools)
    if (each.pool == pool) return each.gpu_time;
  return {};
}

double GpuCostMeter::usd(std::string_view pool) const {
  for (const PoolGpuCost& each : costs_.pools)
    if (each.pool == pool) return each.usd;
  return 0.0;
}

core::Duration GpuCostMeter::period(core::Instant now) const {
  return now - started_ + std::chrono::milliseconds{started_unix_ms_ - costs_.since_unix_ms};
}

}  // namespace penstock::controller
