// Figures in the evidence of a decision, for all policies.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

#include "decision/decision.h"
#include "signals/observation.h"

namespace penstock::decision {

// The evidence with this name and unit; empty if it is missing or not finite.
[[nodiscard]] std::optional<double> evidence_value(const PoolDecision& decision, std::string_view name,
                                                   std::string_view unit);

// Latencies that a policy expects of the current fleet, from the evidence "estimated_ttft" and "estimated_itl" in ms:
// the largest of all pools.
struct Estimate {
  std::optional<double> ttft_ms, itl_ms;
};
[[nodiscard]] Estimate estimate_of(const Decision& decision);

// Whether the policy plans with the default engine model, which nothing has measured yet.
[[nodiscard]] bool is_uncalibrated(const PoolDecision& decision);

// Requests per second that one replica of the pool can serve within the SLO: the estimate "replica_capacity", or the
// configured or load-tested "target_per_replica", in 1/s. Empty if the policy uses other figures.
[[nodiscard]] std::optional<double> capacity_per_replica(const Decision& decision, std::size_t pool);

// The part of the GPU time of a pool that prompts take: all of a prefill pool, nothing of a decode pool, and the
// evidence "input_time_share" of an aggregated pool. Empty where the policy does not know it.
[[nodiscard]] std::optional<double> input_time_share(signals::Role role, const PoolDecision& decision);

// The replicas of a pool at the full price that cost as much as its replicas do: one that is asleep costs a share.
[[nodiscard]] double paid_replicas(const signals::PoolObservation& pool);

// The forecast and the estimates of a policy at one moment.
struct ForecastPoint {
  core::Instant at;
  Forecast expected{};
  std::optional<double> ttft_ms{}, itl_ms{};              // Estimates for the current fleet.
  std::vector<std::optional<double>> capacity_by_pool{};  // Requests per second of one replica within the SLO.
};
// Empty if the decision has none of these figures.
[[nodiscard]] std::optional<ForecastPoint> forecast_point(core::Instant at, const Decision& decision);

}  // namespace penstock::decision
