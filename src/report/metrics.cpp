#include "report/metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <utility>

#include "report/format.h"
#include "telemetry/exposition_writer.h"

namespace penstock::report {
namespace {

using Labels = std::initializer_list<telemetry::Label>;
constexpr std::size_t kCandidatesMax = 64;  // exported, the first ones: each is a series

// Adds the samples of one family. A value that is unknown or not finite is left out.
class Samples {
 public:
  Samples(std::string_view name, std::string_view type, std::string_view help, std::string& text)
      : name_(name), writer_(text) {
    writer_.family(name, type, help);
  }

  void add(std::optional<double> value, Labels labels = {}) {
    if (!value || !std::isfinite(*value)) return;
    std::vector<telemetry::Label> all;
    if (!policy_.empty()) all.emplace_back("policy", policy_);
    all.insert(all.end(), labels.begin(), labels.end());
    writer_.sample(printable(telemetry::format_labels(all)), *value);
  }
  void of_policy(std::string_view policy) { policy_ = policy; }

  // An enum as Prometheus' clients write it: every state is a series, and the one that holds is 1. Their label is
  // called as the metric is; `state` is what its documentation says. Queries by either find it.
  template <class States, class State>
  void add_states(const States& states, const std::optional<State>& current) {
    if (!current) return;
    for (std::size_t i = 0; i < states.size(); ++i)
      add(i == static_cast<std::size_t>(*current) ? 1.0 : 0.0, {{"state", states[i]}, {name_, states[i]}});
  }

 private:
  std::string_view name_, policy_;
  telemetry::ExpositionWriter writer_;
};

using Metrics = PlannerMetrics;
struct Family {
  std::string_view name, type, labels, help;
  void (*add)(const Metrics&, Samples&);
};

template <class Value>
void of_engines(const Metrics& metrics, Samples& samples, Value value) {
  for (const EngineMetrics& engine : metrics.engines)
    samples.add(value(engine), {{"worker_id", engine.worker_id}, {"dp_rank", std::to_string(engine.dp_rank)}});
}
template <class Value>
void of_pools(const Metrics& metrics, Samples& samples, Value value) {
  for (const PoolMetrics& pool : metrics.pools) samples.add(value(pool), {{"pool", pool.pool}});
}
// Every value of the enum is a series, and the one that holds is 1.
template <class Enum>
void add_named(Samples& samples, std::string_view label, std::optional<Enum> current, std::string_view pool = {}) {
  if (!current) return;
  for (const std::string_view name : decision::names_of<Enum>()) {
    const double holds = name == to_string(*current) ? 1.0 : 0.0;
    pool.empty() ? samples.add(holds, {{label, name}}) : samples.add(holds, {{"pool", pool}, {label, name}});
  }
}
// A fleet as one label: "prefill=2,decode=4".
template <class Value>
void of_candidates(const Metrics& metrics, Samples& samples, Value value) {
  for (std::size_t i = 0; i < std::min(kCandidatesMax, metrics.candidates.size()); ++i) {
    const decision::Candidate& tried = metrics.candidates[i];
    std::string fleet;
    for (std::size_t k = 0; k < tried.replicas.size(); ++k)
      fleet += fmt::format("{}{}={}", fleet.empty() ? "" : ",",
                           k < metrics.candidate_pools.size() ? metrics.candidate_pools[k] : std::to_string(k),
                           tried.replicas[k]);
    samples.add(value(tried), {{"replicas", fleet}, {"chosen", tried.chosen ? "true" : "false"}});
  }
}

constexpr std::array kFamilies{
    // ---- under Dynamo's names
    Family{"dynamo_planner_num_prefill_replicas", "gauge", "", "Current number of ready prefill replicas",
           [](const Metrics& m, Samples& s) { s.add(m.prefill_replicas); }},
    Family{"dynamo_planner_num_decode_replicas", "gauge", "",
           "Current number of ready decode replicas; aggregated ones count here",
           [](const Metrics& m, Samples& s) { s.add(m.decode_replicas); }},
    Family{"dynamo_planner_observed_ttft_ms", "gauge", "", "Mean time to first token of the last minute (ms)",
           [](const Metrics& m, Samples& s) { s.add(m.observed_latency.ttft_ms); }},
    Family{"dynamo_planner_observed_itl_ms", "gauge", "", "Mean ITL of the last minute (ms)",
           [](const Metrics& m, Samples& s) { s.add(m.observed_latency.itl_ms); }},
    Family{"dynamo_planner_observed_requests_per_second", "gauge", "", "Request rate of the last minute (1/s)",
           [](const Metrics& m, Samples& s) { s.add(m.observed.requests_per_s); }},
    Family{"dynamo_planner_observed_request_duration_seconds", "gauge", "",
           "Mean time from a request's arrival to its last token (s)",
           [](const Metrics& m, Samples& s) { s.add(m.observed_request_duration_s); }},
    Family{"dynamo_planner_observed_input_sequence_tokens", "gauge", "",
           "Mean prompt length of the last minute (tokens)",
           [](const Metrics& m, Samples& s) { s.add(m.observed.input_tokens); }},
    Family{"dynamo_planner_observed_output_sequence_tokens", "gauge", "",
           "Mean output length of the requests that completed in the last minute (tokens)",
           [](const Metrics& m, Samples& s) { s.add(m.observed.output_tokens); }},
    Family{"dynamo_planner_predicted_requests_per_second", "gauge", "", "Forecast request rate (1/s)",
           [](const Metrics& m, Samples& s) { s.add(m.predicted.requests_per_s); }},
    Family{"dynamo_planner_predicted_input_sequence_tokens", "gauge", "", "Forecast mean prompt length (tokens)",
           [](const Metrics& m, Samples& s) { s.add(m.predicted.input_tokens); }},
    Family{"dynamo_planner_predicted_output_sequence_tokens", "gauge", "", "Forecast mean output length (tokens)",
           [](const Metrics& m, Samples& s) { s.add(m.predicted.output_tokens); }},
    Family{"dynamo_planner_predicted_num_prefill_replicas", "gauge", "", "Decided number of prefill replicas",
           [](const Metrics& m, Samples& s) { s.add(m.decided_prefill_replicas); }},
    Family{"dynamo_planner_predicted_num_decode_replicas", "gauge", "",
           "Decided number of decode replicas; aggregated replicas count here",
           [](const Metrics& m, Samples& s) { s.add(m.decided_decode_replicas); }},
    Family{"dynamo_planner_gpu_hours", "gauge", "", "GPU-hours so far, including start-up and drain",
           [](const Metrics& m, Samples& s) { s.add(m.gpu_hours); }},
    Family{"dynamo_planner_sla_target_ttft_ms", "gauge", "", "SLO limit of TTFT (ms)",
           [](const Metrics& m, Samples& s) { s.add(m.sla_target.ttft_ms); }},
    Family{"dynamo_planner_sla_target_itl_ms", "gauge", "", "SLO limit of ITL (ms)",
           [](const Metrics& m, Samples& s) { s.add(m.sla_target.itl_ms); }},
    Family{"dynamo_planner_estimated_ttft_ms", "gauge", "", "Largest estimated TTFT among engines (ms)",
           [](const Metrics& m, Samples& s) { s.add(m.estimated.ttft_ms); }},
    Family{"dynamo_planner_estimated_itl_ms", "gauge", "", "Largest estimated ITL among engines (ms)",
           [](const Metrics& m, Samples& s) { s.add(m.estimated.itl_ms); }},
    Family{"dynamo_planner_engine_prefill_capacity_requests_per_second", "gauge", "",
           "Request rate that one prefill engine can serve within the SLO (1/s)",
           [](const Metrics& m, Samples& s) { s.add(m.prefill_capacity_requests_per_s); }},
    Family{"dynamo_planner_engine_decode_capacity_requests_per_second", "gauge", "",
           "Request rate that one decode engine can serve within the SLO (1/s)",
           [](const Metrics& m, Samples& s) { s.add(m.decode_capacity_requests_per_s); }},
    Family{"dynamo_planner_engine_prefill_requests_per_second", "gauge", "",
           "The same as engine_prefill_capacity_requests_per_second, under the name of its documentation",
           [](const Metrics& m, Samples& s) { s.add(m.prefill_capacity_requests_per_s); }},
    Family{"dynamo_planner_engine_decode_requests_per_second", "gauge", "",
           "The same as engine_decode_capacity_requests_per_second, under the name of its documentation",
           [](const Metrics& m, Samples& s) { s.add(m.decode_capacity_requests_per_s); }},
    Family{"dynamo_planner_load_scaling_decision", "gauge", "state",
           "State of the last decision of the loop that reacts to load",
           [](const Metrics& m, Samples& s) { s.add_states(kLoadScalingStates, m.load_scaling); }},
    Family{"dynamo_planner_throughput_scaling_decision", "gauge", "state",
           "State of the last decision of the loop that plans ahead",
           [](const Metrics& m, Samples& s) { s.add_states(kThroughputScalingStates, m.throughput_scaling); }},
    Family{"dynamo_planner_engine_queued_prefill_tokens", "gauge", "worker_id, dp_rank",
           "Prompt tokens that wait at an engine",
           [](const Metrics& m, Samples& s) {
             of_engines(m, s, [](const EngineMetrics& e) { return e.queued_prefill_tokens; });
           }},
    Family{"dynamo_planner_engine_queued_decode_kv_tokens", "gauge", "worker_id, dp_rank",
           "KV tokens of sequences that wait to decode at an engine",
           [](const Metrics& m, Samples& s) {
             of_engines(m, s, [](const EngineMetrics& e) { return e.queued_decode_kv_tokens; });
           }},
    Family{"dynamo_planner_engine_inflight_decode_kv_tokens", "gauge", "worker_id, dp_rank",
           "KV tokens of sequences that decode at an engine",
           [](const Metrics& m, Samples& s) {
             of_engines(m, s, [](const EngineMetrics& e) { return e.inflight_decode_kv_tokens; });
           }},
    // ---- Penstock's own
    Family{"penstock_replicas", "gauge", "pool, state", "Replicas by state: starting, ready, draining",
           [](const Metrics& m, Samples& s) {
             for (const PoolMetrics& pool : m.pools) {
               s.add(pool.starting, {{"pool", pool.pool}, {"state", "starting"}});
               s.add(pool.ready, {{"pool", pool.pool}, {"state", "ready"}});
               s.add(pool.draining, {{"pool", pool.pool}, {"state", "draining"}});
             }
           }},
    Family{
        "penstock_target_replicas", "gauge", "pool", "Target replicas of the last decision",
        [](const Metrics& m, Samples& s) { of_pools(m, s, [](const PoolMetrics& p) { return p.target_replicas; }); }},
    Family{"penstock_min_replicas", "gauge", "pool", "Minimum replicas of the pool",
           [](const Metrics& m, Samples& s) { of_pools(m, s, [](const PoolMetrics& p) { return p.min_replicas; }); }},
    Family{"penstock_max_replicas", "gauge", "pool", "Maximum replicas of the pool",
           [](const Metrics& m, Samples& s) { of_pools(m, s, [](const PoolMetrics& p) { return p.max_replicas; }); }},
    Family{"penstock_decision", "gauge", "pool, reason, limited_by",
           "Reason and limit of the last decision as labels; the value is always 1",
           [](const Metrics& m, Samples& s) {
             for (const PoolMetrics& pool : m.pools)
               if (pool.reason)
                 s.add(1.0, {{"pool", pool.pool},
                             {"reason", to_string(*pool.reason)},
                             {"limited_by", to_string(pool.limited_by)}});
           }},
    Family{"penstock_decision_evidence", "gauge", "pool, name, unit",
           "Evidence of the last decision: one series for each figure",
           [](const Metrics& m, Samples& s) {
             for (const PoolMetrics& pool : m.pools)
               for (const decision::Evidence& evidence : pool.evidence)
                 s.add(evidence.value, {{"pool", pool.pool}, {"name", evidence.name}, {"unit", evidence.unit}});
           }},
    Family{"penstock_decisions_total", "counter", "pool, reason, limited_by",
           "Decisions so far, including decisions that change nothing",
           [](const Metrics& m, Samples& s) {
             for (const decision::DecisionCount& count : m.decisions)
               s.add(static_cast<double>(count.decisions), {{"pool", count.pool},
                                                            {"reason", to_string(count.reason)},
                                                            {"limited_by", to_string(count.limited_by)}});
           }},
    Family{"penstock_diagnosis", "gauge", "pool, cause",
           "Cause of bad latency in the last decision: one series for each cause; the current cause is 1",
           [](const Metrics& m, Samples& s) {
             for (const PoolMetrics& pool : m.pools) add_named(s, "cause", pool.cause, pool.pool);
           }},
    Family{"penstock_rollout_phase", "gauge", "phase",
           "Rollout phase of the planner: one series for each phase; the current phase is 1",
           [](const Metrics& m, Samples& s) { add_named(s, "phase", m.phase); }},
    Family{
        "penstock_next_phase_target_replicas", "gauge", "pool", "Target replicas that the next rollout phase would set",
        [](const Metrics& m, Samples& s) { of_pools(m, s, [](const PoolMetrics& p) { return p.next_phase_target; }); }},
    Family{"penstock_forecast_error_requests_per_second", "gauge", "forecast",
           "Recent mean absolute error of the forecast request rate: the planner's, and of a forecast without change "
           "(1/s)",
           [](const Metrics& m, Samples& s) {
             s.add(m.forecast_error, {{"forecast", "planner"}});
             s.add(m.naive_forecast_error, {{"forecast", "naive"}});
           }},
    Family{"penstock_replica_capacity_requests_per_second", "gauge", "pool",
           "Request rate that one replica can serve within the SLO; a lower bound where it comes from a simulated "
           "fleet (1/s)",
           [](const Metrics& m, Samples& s) {
             of_pools(m, s, [](const PoolMetrics& p) { return p.capacity_requests_per_s; });
           }},
    Family{"penstock_candidate_slo_attainment_ratio", "gauge", "replicas, chosen",
           "SLO attainment of a simulated fleet",
           [](const Metrics& m, Samples& s) {
             of_candidates(m, s, [](const decision::Candidate& tried) { return tried.slo_attainment; });
           }},
    Family{"penstock_candidate_ttft_attainment_ratio", "gauge", "replicas, chosen",
           "Share of requests within the TTFT limit in a simulated fleet",
           [](const Metrics& m, Samples& s) {
             of_candidates(m, s, [](const decision::Candidate& tried) { return tried.ttft_attainment; });
           }},
    Family{"penstock_candidate_itl_attainment_ratio", "gauge", "replicas, chosen",
           "Share of requests within the ITL limit in a simulated fleet",
           [](const Metrics& m, Samples& s) {
             of_candidates(m, s, [](const decision::Candidate& tried) { return tried.itl_attainment; });
           }},
    Family{"penstock_slo_attainment_ratio", "gauge", "", "SLO attainment: share of requests within all limits",
           [](const Metrics& m, Samples& s) { s.add(m.slo_attainment); }},
    Family{"penstock_ttft_attainment_ratio", "gauge", "", "Share of requests within the TTFT limit",
           [](const Metrics& m, Samples& s) { s.add(m.ttft_attainment); }},
    Family{"penstock_itl_attainment_ratio", "gauge", "", "Share of requests within the ITL limit",
           [](const Metrics& m, Samples& s) { s.add(m.itl_attainment); }},
    Family{"penstock_requests_total", "counter", "pool", "Requests that arrived at a pool",
           [](const Metrics& m, Samples& s) { of_pools(m, s, [](const PoolMetrics& p) { return p.requests_total; }); }},
    Family{"penstock_requests_failed_total", "counter", "pool", "Requests that failed in a pool",
           [](const Metrics& m, Samples& s) { of_pools(m, s, [](const PoolMetrics& p) { return p.failed_total; }); }},
    Family{"penstock_scaling_events_total", "counter", "pool", "Completed changes of a pool's replicas",
           [](const Metrics& m, Samples& s) {
             for (const ScalingCount& count : m.scaling)
               s.add(static_cast<double>(count.events), {{"pool", count.pool}});
           }},
    Family{"penstock_scaling_requests_total", "counter", "pool, outcome",
           "Requests that ended while a pool changed, on any replica, by outcome: completed, failed, truncated, "
           "timed_out, cancelled",
           [](const Metrics& m, Samples& s) {
             for (const ScalingCount& count : m.scaling)
               for (const auto& [outcome, requests] : count.ends.named())
                 s.add(static_cast<double>(requests), {{"pool", count.pool}, {"outcome", outcome}});
           }},
    Family{
        "penstock_unrouted_requests", "gauge", "pool", "Requests that wait because no replica is ready",
        [](const Metrics& m, Samples& s) { of_pools(m, s, [](const PoolMetrics& p) { return p.unrouted_requests; }); }},
    Family{
        "penstock_queue_oldest_seconds", "gauge", "pool", "Age of the oldest request that waits at an engine",
        [](const Metrics& m, Samples& s) { of_pools(m, s, [](const PoolMetrics& p) { return p.oldest_queued_s; }); }},
    Family{"penstock_kv_usage_ratio", "gauge", "pool", "KV cache in use, mean over the replicas with telemetry",
           [](const Metrics& m, Samples& s) { of_pools(m, s, [](const PoolMetrics& p) { return p.kv_usage; }); }},
    Family{
        "penstock_telemetry_age_seconds", "gauge", "pool",
        "Age of the oldest telemetry sample among the ready replicas",
        [](const Metrics& m, Samples& s) { of_pools(m, s, [](const PoolMetrics& p) { return p.telemetry_age_s; }); }},
    Family{
        "penstock_silent_replicas", "gauge", "pool", "Ready replicas without telemetry for 30 s or more",
        [](const Metrics& m, Samples& s) { of_pools(m, s, [](const PoolMetrics& p) { return p.silent_replicas; }); }},
    Family{"penstock_gpu_seconds_total", "counter", "pool", "GPU time so far, including start-up and drain (s)",
           [](const Metrics& m, Samples& s) { of_pools(m, s, [](const PoolMetrics& p) { return p.gpu_s_total; }); }},
    Family{"penstock_cost_total", "counter", "pool", "GPU cost so far: GPU time times the configured price (USD)",
           [](const Metrics& m, Samples& s) { of_pools(m, s, [](const PoolMetrics& p) { return p.cost_total; }); }},
};

}  // namespace

std::string to_prometheus_text(const PlannerMetrics& metrics) { return to_prometheus_text(std::span{&metrics, 1}); }

std::string to_prometheus_text(std::span<const PlannerMetrics> metrics) {
  std::string text;
  for (const Family& family : kFamilies) {
    Samples samples{family.name, family.type, family.help, text};
    for (const PlannerMetrics& one : metrics) {
      samples.of_policy(one.policy);
      family.add(one, samples);
    }
  }
  return text;
}

std::string metrics_markdown() {
  std::string page =
      "# Metrics of the planner\n\n"
      "Generated from the table in `src/report/metrics.cpp`; `report_test` holds this page to it.\n\n"
      "A figure that is not known is a series that is not there, never a zero. The series `dynamo_planner_*` have the\n"
      "names, units and labels of NVIDIA Dynamo's planner (1.3.1), so dashboards made for it go on working; its two\n"
      "enum gauges have one series a state, of which one is 1, and carry the state in `state` and in a label called "
      "as\n"
      "the metric, as Prometheus' Python client writes it. `penstock replay --metrics FILE` writes all of them as "
      "they\n"
      "stand at the end of a run, with one more label, `policy`.\n\n"
      "| series | type | labels | meaning |\n|---|---|---|---|\n";
  for (const Family& family : kFamilies)
    page += fmt::format("| `{}` | {} | {} | {} |\n", family.name, family.type, family.labels, family.help);
  const auto list = [&](std::string_view name, const auto& states) {
    page += fmt::format("\nStates of `{}`:", name);
    for (const std::string_view state : states)
      page += fmt::format("{}`{}`", &state == &states[0] ? "\n" : ",\n", state);
    page += ".\n";
  };
  list("dynamo_planner_load_scaling_decision", kLoadScalingStates);
  list("dynamo_planner_throughput_scaling_decision", kThroughputScalingStates);
  list("penstock_diagnosis", decision::names_of<decision::Cause>());
  list("penstock_rollout_phase", decision::names_of<decision::RolloutPhase>());
  return page;
}

}  // namespace penstock::report
