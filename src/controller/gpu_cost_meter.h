// Divides the GPU cost among tenants and models, and keeps the sums over restarts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/time.h"
#include "decision/gpu_costs.h"
#include "decision/token_count.h"
#include "decision/totals.h"
#include "report/metrics.h"

namespace penstock::controller {

// The cost of each tick is divided by the tokens of completed requests: that of prompts by prompt tokens, and the rest
// by output tokens. A token weighs half as much each hour after its request ended, so that a long request and idle time
// are borne by the traffic around them. A cost before the first tokens is divided by those. Not thread-safe.
class GpuCostMeter {
 public:
  static constexpr std::size_t kTenantsMax = 500;      // Pairs of a tenant and a model.
  static constexpr std::string_view kOther = "other";  // Tenant and model of further pairs.
  static constexpr core::Duration kHalfLife = std::chrono::hours{1};

  GpuCostMeter(core::Instant now, std::int64_t now_unix_ms) : started_(now), counted_to_(now) {
    costs_.since_unix_ms = started_unix_ms_ = now_unix_ms;
  }

  // Takes what was added to `totals`, whose pools are named, and the tokens of the time since the last call.
  void count(core::Instant now, const decision::DecisionTotals& totals, std::span<const std::string> pools,
             std::span<const decision::TenantTokens> completed);
  // Continues from the sums of another process in place of its own ones; counted() is unchanged.
  void restore(decision::GpuCosts costs);

  [[nodiscard]] const decision::GpuCosts& costs() const { return costs_; }
  [[nodiscard]] core::Duration gpu_time(std::string_view pool) const;
  [[nodiscard]] double usd(std::string_view pool) const;
  // The time that the sums are of, with the time between processes.
  [[nodiscard]] core::Duration period(core::Instant now) const;

  // What this process has counted (USD), which never falls. Prometheus would take a sum that falls, as after a crash,
  // for one that began again at 0.
  [[nodiscard]] const std::vector<report::TenantGpuCostTotal>& counted() const { return counted_; }

 private:
  void divide(double& usd, double decision::TenantGpuCost::*recent, double decision::TokenCost::*part);

  core::Instant started_, counted_to_;
  std::int64_t started_unix_ms_ = 0;
  decision::GpuCosts costs_;
  std::vector<report::TenantGpuCostTotal> counted_;
  decision::TokenCost token_cost_;                // Of the totals, as far as it was taken.
  std::vector<decision::PoolGpuCost> of_totals_;  // Likewise, by pool.
};

}  // namespace penstock::controller
