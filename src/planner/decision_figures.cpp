#include "planner/decision_figures.h"

#include <algorithm>
#include <cmath>

namespace penstock::planner {

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

std::optional<double> capacity_per_replica(const Decision& decision, std::size_t pool) {
  if (const auto told = evidence_value(decision.pools[pool], "target_per_replica", "1/s")) return told;
  const auto chosen = std::find_if(decision.candidates.begin(), decision.candidates.end(),
                                   [](const Candidate& tried) { return tried.chosen; });
  const auto rate = evidence_value(decision.pools[pool], "request_rate", "1/s");
  if (chosen == decision.candidates.end() || !rate || pool >= chosen->replicas.size() || chosen->replicas[pool] == 0)
    return std::nullopt;
  const double growth = evidence_value(decision.pools[pool], "expected_growth", "times").value_or(1.0);
  return *rate * growth / chosen->replicas[pool];
}

}  // namespace penstock::planner
