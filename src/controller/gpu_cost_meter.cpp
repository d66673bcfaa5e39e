#include "controller/gpu_cost_meter.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

namespace penstock::controller {
namespace {

using decision::PoolGpuCost;
using decision::row_of;
using decision::TenantGpuCost;
using decision::TokenCost;

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
    auto& row = row_of(costs_.tenants, tokens.tenant, tokens.model, kTenantsMax, kOther);
    row.completed += tokens.completed;
    row.within_slo += tokens.within_slo;
    row.recent_input += static_cast<double>(tokens.completed.input);
    row.recent_output += static_cast<double>(tokens.completed.output);
  }
  for (std::size_t i = 0; i < pools.size(); ++i) {
    PoolGpuCost &sum = row_of(costs_.pools, pools[i]), &before = row_of(of_totals_, pools[i]);
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
    row_of(counted_, row.tenant, row.model, kTenantsMax, kOther).usd += own;
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
