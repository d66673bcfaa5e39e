// From what a planner saw and decided to the figures that it exports.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "core/time.h"
#include "planner/policy.h"
#include "report/metrics.h"
#include "signals/observation.h"

namespace penstock::report {

// Running totals: one instance a planner, told of every decision in the order of time.
class PlannerTotals {
 public:
  // `prices_per_gpu_hour` by pool; without one, there is no cost to tell.
  explicit PlannerTotals(std::vector<double> prices_per_gpu_hour = {}) : prices_(std::move(prices_per_gpu_hour)) {}

  // GPU time runs from the observation before to this one, for the replicas that this one shows: starting, ready and
  // draining ones are all paid for. A clock that steps back adds nothing.
  void count(const signals::Observation& observation, const planner::Decision& decision);

  [[nodiscard]] core::Duration gpu_time(std::size_t pool) const;
  [[nodiscard]] std::optional<double> cost(std::size_t pool) const;
  [[nodiscard]] std::vector<DecisionCount> decisions() const;  // by pool, reason and limit

 private:
  std::vector<double> prices_;
  std::optional<core::Instant> counted_to_;
  std::vector<std::string> names_;
  std::vector<core::Duration> gpu_time_;  // by pool
  std::map<std::tuple<std::size_t, planner::Reason, planner::Limit>, std::uint64_t> decisions_;
};

// What one moment's figures are made of. Only the first three must be there; what the decision says of the outlook and in
// its evidence is taken from there, unless somebody knows better and says so here.
struct MetricSources {
  const signals::Observation& observation;
  const planner::Decision& decision;  // on that observation; none of its pools may be missing
  const PlannerTotals& totals;
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
[[nodiscard]] LoadScaling load_scaling_state(const planner::Decision& decision);
[[nodiscard]] ThroughputScaling throughput_scaling_state(const planner::Decision& decision);

}  // namespace penstock::report
