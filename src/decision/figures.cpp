#include "decision/figures.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace penstock::decision {

std::optional<double> evidence_value(const PoolDecision& decision, std::string_view name, std::string_view unit) {
  for (const Evidence& evidence : decision.evidence)
    if (evidence.name == name && evidence.unit == unit && std::isfinite(evidence.value)) return evidence.value;
  return std::nullopt;
}

Estimate estimate_of(const Decision& decision) {
  Estimate estimate;
  const auto raise = [](std::optional<double>& most, std::optional<double> value) {
    if (value) most = std::max(most.value_or(*value), *value);
  };
  for (const PoolDecision& pool : decision.pools) {
    raise(estimate.ttft_ms, evidence_value(pool, "estimated_ttft", "ms"));
    raise(estimate.itl_ms, evidence_value(pool, "estimated_itl", "ms"));
  }
  return estimate;
}

bool is_uncalibrated(const PoolDecision& decision) {
  return evidence_value(decision, "uncalibrated_default_engine", "model").has_value();
}

std::optional<double> capacity_per_replica(const Decision& decision, std::size_t pool) {
  if (const auto estimated = evidence_value(decision.pools[pool], "replica_capacity", "1/s")) return estimated;
  return evidence_value(decision.pools[pool], "target_per_replica", "1/s");
}

std::optional<ForecastPoint> forecast_point(core::Instant at, const Decision& decision) {
  ForecastPoint point{at, decision.forecast.value_or(Forecast{}), {}, {}, {}};
  const Estimate estimate = estimate_of(decision);
  point.ttft_ms = estimate.ttft_ms;
  point.itl_ms = estimate.itl_ms;
  bool known = point.expected.known() || point.ttft_ms || point.itl_ms;
  for (std::size_t pool = 0; pool < decision.pools.size(); ++pool) {
    point.capacity_by_pool.push_back(capacity_per_replica(decision, pool));
    known |= point.capacity_by_pool.back().has_value();
  }
  return known ? std::optional{std::move(point)} : std::nullopt;
}

double paid_replicas(const signals::PoolObservation& pool) {
  const std::uint32_t full = pool.staying() + pool.leaving() + pool.starting_to_sleep;
  return static_cast<double>(full) + pool.asleep * pool.sleep_price;
}

std::optional<double> input_time_share(signals::Role role, const PoolDecision& decision) {
  if (role == signals::Role::kPrefill) return 1.0;
  if (role == signals::Role::kDecode) return 0.0;
  return evidence_value(decision, "input_time_share", "share");
}

}  // namespace penstock::decision
