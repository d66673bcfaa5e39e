// The figures behind the series that are derived from an observation and a decision.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "decision/figures.h"
#include "report/metrics.h"
#include "report/scaling_states.h"

namespace penstock::report {

struct EngineFigures {
  std::string worker_id;
  std::optional<double> queued_prefill_tokens, queued_kv_tokens, scheduled_kv_tokens;  // By the role of the pool.
};

struct PoolFigures {
  const signals::PoolObservation& seen;
  const decision::PoolDecision& decided;
  double gpu_time_s = 0.0;
  std::optional<double> cost{}, capacity_requests_per_s{};
  std::uint32_t silent_replicas = 0;  // Ready replicas without a recent sample.
  // Age of the oldest sample and of the oldest queued request, and the mean KV usage of the replicas with a sample.
  std::optional<double> telemetry_age_s{}, oldest_queued_s{}, kv_usage{};
};

// Refers to `from`, which must outlive it.
struct MetricFigures {
  explicit MetricFigures(const PlannerMetrics& from);

  const PlannerMetrics& from;
  std::vector<PoolFigures> pools;
  std::vector<EngineFigures> engines;
  std::vector<decision::Candidate> candidates;  // One for each fleet that was tried.
  std::vector<decision::DecisionCount> decisions;
  // Replicas by Dynamo's two roles; aggregated replicas count as decode.
  std::optional<double> prefill_replicas, decode_replicas, decided_prefill_replicas, decided_decode_replicas;
  std::optional<double> requests_per_s, input_tokens, output_tokens, ttft_ms, itl_ms;  // Of the last minute.
  std::optional<double> unstreamed_e2e_s, unstreamed_tpot_s;  // Likewise, of answers without a stream.
  std::optional<double> request_duration_s;                   // Of the whole replay, or else of the last minute.
  decision::Forecast forecast;
  decision::Estimate estimate;
  std::optional<double> prefill_capacity_requests_per_s, decode_capacity_requests_per_s;  // Of one engine.
  std::optional<double> gpu_hours;
  std::optional<double> usd_per_1m_input_tokens,
      usd_per_1m_output_tokens;  // Of the GPUs, at the rates of the last minute.
  std::optional<LoadScaling> load_scaling;
  std::optional<ThroughputScaling> throughput_scaling;

 private:
  void add_engines(const signals::PoolObservation& pool);
  void add_pool(std::size_t index);
  void add_traffic();
  void add_token_costs();
  void add_candidates();
};

}  // namespace penstock::report
