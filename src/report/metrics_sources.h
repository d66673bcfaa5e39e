// From what a planner saw and decided to the figures that it exports.
#pragma once

#include <optional>

#include "core/time.h"
#include "decision/decision.h"
#include "decision/totals.h"
#include "report/metrics.h"
#include "signals/observation.h"
#include "signals/slo.h"

namespace penstock::report {

// What one moment's figures are made of. Only the first three must be there; what the decision forecasts and has in
// its evidence is taken from there, unless somebody knows better and says so here.
struct MetricSources {
  const signals::Observation& observation;
  const decision::Decision& decision;  // on that observation; none of its pools may be missing
  const decision::DecisionTotals& totals;
  std::optional<signals::SloTarget> slo{};
  TrafficFigures predicted{};
  LatencyFigures estimated{};
  std::optional<double> observed_request_duration_s{};
  std::optional<double> prefill_capacity_requests_per_s{}, decode_capacity_requests_per_s{};
  std::optional<double> slo_attainment{}, ttft_attainment{}, itl_attainment{};
  // A policy with loops of its own says so; else the states follow from reasons and limits.
  std::optional<LoadScaling> load_scaling{};
  std::optional<ThroughputScaling> throughput_scaling{};
};

// A sample older than this says nothing about an engine.
inline constexpr core::Duration kSampleAgeMax = std::chrono::seconds{30};

[[nodiscard]] PlannerMetrics make_planner_metrics(const MetricSources& sources);

// Dynamo has one state for all pools: a change wins over a hold, growth over shrinking, and of holds the gravest.
[[nodiscard]] LoadScaling load_scaling_state(const decision::Decision& decision);
[[nodiscard]] ThroughputScaling throughput_scaling_state(const decision::Decision& decision);

}  // namespace penstock::report
