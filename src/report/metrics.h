// What a planner tells Prometheus: its own series, and those of NVIDIA Dynamo's planner under their names, so that
// dashboards and alerts made for that one go on working.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "decision/decision.h"
#include "decision/totals.h"
#include "signals/observation.h"
#include "signals/request_ends.h"

namespace penstock::report {

// Why the loop that reacts to load chose what it chose. The names are Dynamo's; so is the order.
enum class LoadScaling : std::uint8_t {
  kUnset,
  kDisabled,
  kNoFpmData,
  kScalingInProgress,
  kWorkerCountMismatch,
  kInsufficientData,
  kNoChange,
  kScaleUp,
  kScaleDown,
  kScaleDownCappedByThroughput,
  kScaleDownRefusedConsolidation,
};
inline constexpr std::array<std::string_view, 11> kLoadScalingStates = {"unset",
                                                                        "disabled",
                                                                        "no_fpm_data",
                                                                        "scaling_in_progress",
                                                                        "worker_count_mismatch",
                                                                        "insufficient_data",
                                                                        "no_change",
                                                                        "scale_up",
                                                                        "scale_down",
                                                                        "scale_down_capped_by_throughput",
                                                                        "scale_down_refused_consolidation"};

// The same of the loop that plans for the throughput to come.
enum class ThroughputScaling : std::uint8_t {
  kUnset,
  kDisabled,
  kNoTrafficData,
  kPredictFailed,
  kModelNotReady,
  kSetLowerBound,
  kScale,
};
inline constexpr std::array<std::string_view, 7> kThroughputScalingStates = {
    "unset", "disabled", "no_traffic_data", "predict_failed", "model_not_ready", "set_lower_bound", "scale"};

// What the engines of one kind, or requests of one moment, are like; what is not known has no value.
struct TrafficFigures {
  std::optional<double> requests_per_s;
  std::optional<double> input_tokens;  // of a request, on average
  std::optional<double> output_tokens;
};
struct LatencyFigures {
  std::optional<double> ttft_ms, itl_ms;
};

struct EngineMetrics {
  std::string worker_id;
  std::uint32_t dp_rank = 0;
  std::optional<double> queued_prefill_tokens;
  std::optional<double> queued_decode_kv_tokens;
  std::optional<double> inflight_decode_kv_tokens;
};

struct PoolMetrics {
  std::string pool;
  signals::Role role = signals::Role::kAggregated;
  std::uint32_t starting = 0, ready = 0, draining = 0;
  std::uint32_t min_replicas = 1, max_replicas = 1;
  std::optional<double> target_replicas;   // of the last decision
  std::optional<decision::Reason> reason;  // of the same; none: nothing was decided yet
  decision::Limit limited_by = decision::Limit::kNone;
  std::vector<decision::Evidence> evidence;
  std::optional<decision::Cause> cause;           // of bad latency; none: not diagnosed
  std::optional<double> next_phase_target;        // of the rollout
  std::optional<double> capacity_requests_per_s;  // of one replica, within the SLO
  std::uint32_t unrouted_requests = 0;
  std::uint32_t silent_replicas = 0;      // ready, and not heard of lately
  std::optional<double> telemetry_age_s;  // of the oldest sample among the ready replicas
  std::optional<double> oldest_queued_s;
  std::optional<double> kv_usage;  // 0..1, mean over the replicas that were heard of
  std::optional<double> requests_total, failed_total;
  std::optional<double> gpu_s_total, cost_total;
};

// Changes of a pool's replicas, and how requests ended meanwhile.
struct ScalingCount {
  std::string pool;
  std::uint64_t events = 0;
  signals::RequestEnds ends;
};

// Everything that the series need. An empty optional, a list without items: no such series. Missing is not zero.
struct PlannerMetrics {
  std::string policy;                                       // a label of every series; empty: no such label
  std::optional<double> prefill_replicas, decode_replicas;  // ready; aggregated ones count as decode
  std::optional<double> decided_prefill_replicas, decided_decode_replicas;
  TrafficFigures observed;
  LatencyFigures observed_latency;
  std::optional<double> observed_request_duration_s;
  TrafficFigures predicted;
  LatencyFigures sla_target;
  LatencyFigures estimated;
  std::optional<double> prefill_capacity_requests_per_s;  // of one engine, within the SLO
  std::optional<double> decode_capacity_requests_per_s;
  std::optional<double> gpu_hours;
  std::optional<LoadScaling> load_scaling;
  std::optional<ThroughputScaling> throughput_scaling;
  std::vector<EngineMetrics> engines;

  std::vector<PoolMetrics> pools;
  std::vector<decision::DecisionCount> decisions;
  std::vector<ScalingCount> scaling;
  std::vector<std::string> candidate_pools;  // names, in the order of Candidate::replicas
  std::vector<decision::Candidate> candidates;
  std::optional<double> slo_attainment, ttft_attainment, itl_attainment;  // shares, 0..1
  std::optional<decision::RolloutPhase> phase;                            // of the rollout; none: there is none
  std::optional<double> forecast_error, naive_forecast_error;             // of the request rate, 1/s
};

inline constexpr std::string_view kMetricsContentType = "text/plain; version=0.0.4; charset=utf-8";

// The text exposition format 0.0.4: families in a fixed order, samples in the order of the value, labels escaped. A
// figure that is not finite is as good as missing.
[[nodiscard]] std::string to_prometheus_text(const PlannerMetrics& metrics);
// Of several planners, whose policies differ.
[[nodiscard]] std::string to_prometheus_text(std::span<const PlannerMetrics> metrics);

// The reference page of all series, docs/reference/metrics.md.
[[nodiscard]] std::string metrics_markdown();

}  // namespace penstock::report
