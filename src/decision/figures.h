// Figures that a decision carries among its evidence, whatever the policy that made it.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

#include "decision/decision.h"

namespace penstock::decision {

// Evidence of that name and unit; none where the policy gives no such figure, or one that is not finite.
[[nodiscard]] std::optional<double> evidence_value(const PoolDecision& decision, std::string_view name,
                                                   std::string_view unit);

// Latencies that a policy expects of the fleet there is, from evidence "estimated_ttft" and "estimated_itl" in ms; the
// largest among the pools.
struct Estimate {
  std::optional<double> ttft_ms, itl_ms;
};
[[nodiscard]] Estimate estimate_of(const Decision& decision);

// Requests a second that one replica of the pool carries within the SLO: what the policy was configured with or measured
// ("target_per_replica" in 1/s), or what each replica of the fleet that it chose carried in its trial, which is the least
// that it can. None where the policy goes by other figures.
[[nodiscard]] std::optional<double> capacity_per_replica(const Decision& decision, std::size_t pool);

// What a policy expected and estimated at one moment.
struct ForecastPoint {
  core::Instant at;
  Forecast expected{};
  std::optional<double> ttft_ms{}, itl_ms{};              // estimated, of the fleet there is
  std::vector<std::optional<double>> capacity_by_pool{};  // of one replica within the SLO, requests a second
};
// None where the decision says nothing of these.
[[nodiscard]] std::optional<ForecastPoint> forecast_point(core::Instant at, const Decision& decision);

}  // namespace penstock::decision
