// For tests: a report made by hand, so that no simulation stands behind a golden file. Whole numbers and simple
// fractions only: the same on every machine.
#pragma once

#include <algorithm>
#include <string>
#include <utility>

#include "report/deployments.h"
#include "report/run_info.h"

namespace penstock::report::testing {

inline core::Instant at_second(std::uint64_t second) { return core::kStart + std::chrono::seconds{second}; }

// How one policy of the sample fared: the load is a tide of one hour, the fleet follows it from `low` to `high`.
struct SampleFleet {
  const char* policy;
  std::uint32_t low, high;
  double attainment;  // 0..1
  double strain;      // 1: latencies half-way to their limits at the tide's height
};

// 0..1 and back over the hour, as a triangle with a plateau.
inline double tide(std::uint64_t second) {
  const double phase = static_cast<double>(second % 3600) / 3600.0;
  const double rise = phase < 0.5 ? phase * 2.0 : 2.0 - phase * 2.0;
  return rise < 0.2 ? 0.0 : rise > 0.8 ? 1.0 : (rise - 0.2) / 0.6;
}

inline core::Summary sample_summary(double median) {
  return {median * 1.25, median, median * 2.0, median * 3.0, median * 5.0, median * 12.0};
}

inline std::uint32_t fleet_at(const SampleFleet& fleet, std::uint64_t second) {
  return fleet.low + static_cast<std::uint32_t>(tide(second) * (fleet.high - fleet.low) + 0.5);
}

inline void add_series(decision::RunResult& result, const SampleFleet& fleet, std::size_t points) {
  const std::uint64_t width = 3600 / points;
  std::uint32_t before = result.replicas;
  for (std::uint64_t second = width; second <= width * points; second += width) {
    const double load = tide(second);
    decision::SeriesPoint point;
    point.at = at_second(second);
    point.arrivals_per_s = 1.0 + 4.0 * load;
    point.input_tokens_per_s = 2048.0 * point.arrivals_per_s;
    point.output_tokens_per_s = 256.0 * point.arrivals_per_s;
    point.target = fleet_at(fleet, second);
    point.starting = point.target > before ? point.target - before : 0;
    point.ready = point.target - point.starting;
    point.ready_by_pool = {point.ready};
    point.queued_requests = static_cast<std::uint64_t>(8.0 * load * fleet.strain * fleet.strain);
    point.running_requests = 4 + static_cast<std::uint64_t>(40.0 * load);
    point.kv_usage = 0.25 + 0.5 * load;
    // Nothing finished in the first interval: figures that must show as missing.
    point.first_tokens = second == width ? 0 : 8;
    point.ttft_p50_ms = 250.0 + 250.0 * load * fleet.strain;
    point.ttft_p95_ms = 500.0 + 750.0 * load * fleet.strain * fleet.strain;
    point.completed = point.first_tokens;
    point.itl_p50_ms = 16.0 + 8.0 * load;
    point.itl_p95_ms = 20.0 + 16.0 * load * fleet.strain;
    point.arrived = point.judged = 16;
    point.met_slo = static_cast<std::uint64_t>(16.0 * (1.0 - (1.0 - fleet.attainment) * 2.0 * load) + 0.5);
    result.series.push_back(point);
    if (point.target != before) {
      const bool up = point.target > before;
      decision::DecisionRecord& record = result.decisions.emplace_back();
      record.at = point.at;
      record.policy = fleet.policy;
      record.pool = "default";
      record.current = before;
      record.target = point.target;
      record.reason = up ? decision::Reason::kLoadAboveTarget : decision::Reason::kSpareCapacity;
      record.limited_by = up && point.target == fleet.high ? decision::Limit::kMaxReplicas : decision::Limit::kNone;
      record.evidence = {{"request_rate", up ? 4.2 : 1.5, "1/s"}, {"target", 2.0, "1/s"}};
      before = point.target;
    }
  }
}

inline void add_segments(decision::RunResult& result, double attainment) {
  const auto add = [&](const char* dimension, const char* label, std::uint64_t requests, double missed) {
    const std::uint64_t failed = result.failed > 0 ? requests / 500 : 0;
    result.segments.push_back({dimension, label, requests, failed, std::max(0.0, 1.0 - (1.0 - attainment) * missed),
                               sample_summary(250.0 * (1.0 + missed)), sample_summary(16.0 + missed)});
  };
  add("prompt tokens", "below 1k", 2000, 0.25);
  add("prompt tokens", "1k-4k", 5000, 0.75);
  add("prompt tokens", "4k-16k", 2000, 2.0);
  add("prompt tokens", "16k-64k", 1000, 3.0);
  add("output tokens", "below 64", 4000, 0.5);
  add("output tokens", "64-256", 6000, 1.25);
  add("tenant", "search", 7000, 0.5);
  add("tenant", "batch-nightly", 3000, 2.0);
  add("prefix cache", "miss", 4000, 1.5);
  add("prefix cache", "hit", 6000, 0.75);
}

inline decision::RunResult sample_result(const SampleFleet& fleet, std::size_t points) {
  decision::RunResult result;
  result.policy = fleet.policy;
  result.router = "kv";
  result.replicas = fleet.low;
  result.peak_replicas = fleet.high;
  result.mean_replicas = fleet.low + 0.5 * (fleet.high - fleet.low);
  result.requests = 10000;
  result.failed = fleet.attainment < 0.9 ? 21 : 0;
  result.completed = result.requests - result.failed;
  if (result.failed > 0) result.failures = {{"prompt_exceeds_kv_cache", 20}, {"unfinished", 1}};
  result.slo_attainment = fleet.attainment;
  result.ttft_attainment = 0.5 + 0.5 * fleet.attainment;
  result.itl_attainment = 0.25 * fleet.attainment + 0.75;
  result.duration_s = 3600.0;
  result.goodput_rps = 10000.0 * fleet.attainment / 3600.0;
  result.gpu_hours = result.mean_replicas;
  result.cost = 2.5 * result.gpu_hours;
  result.input_cost_share = 0.25;
  result.completed_tokens = {20'480'000, 2'560'000};
  result.goodput_tokens = {20'480'000 / 8 * static_cast<std::uint64_t>(8.0 * fleet.attainment), 1'280'000};
  result.ttft_ms = sample_summary(250.0 * fleet.strain);
  result.itl_ms = sample_summary(12.5 * fleet.strain);
  result.tpot_ms = sample_summary(12.5 * fleet.strain);
  result.e2e_ms = sample_summary(5000.0);
  result.prefix_hit_ratio = 0.375;
  result.preemptions = static_cast<std::uint64_t>(100.0 * fleet.strain);
  result.simulated_requests_per_s = 250000.0;
  add_series(result, fleet, points);
  add_segments(result, fleet.attainment);
  result.scaling_actions = result.decisions.size();
  result.direction_changes = result.decisions.empty() ? 0 : 1;
  return result;
}

// A policy that says all there is to say: the diagnosis is a queue from its first growth to its first shrinking.
inline decision::RunResult diagnosed_result(std::size_t points) {
  decision::RunResult result = sample_result({"penstock", 2, 8, 0.984375, 1.125}, points);
  for (decision::DecisionRecord& note : result.decisions) {
    const bool up = note.target > note.current;
    note.cause = up ? decision::Cause::kQueue : decision::Cause::kNone;
    note.diagnosis = up ? "TTFT is bad in pool default for prompt tokens 16k-64k, in the engine queue: too many "
                          "requests per replica "
                          "(ttft_p95 5120 ms, ttft_limit 2000 ms)"
                        : "latency meets the SLO";
    note.phase = decision::RolloutPhase::kGuardrails;
    note.next_phase_target = note.target + 1;
    note.forecast = decision::Forecast{4.5, 2048.0, {}, 0.25, 0.5};
  }
  decision::DecisionRecord hold;
  hold.at = at_second(30);
  hold.pool = "default";
  hold.current = hold.target = 2;
  hold.reason = decision::Reason::kSloMet;
  hold.cause = decision::Cause::kNone;
  hold.diagnosis = "latency meets the SLO";
  hold.phase = decision::RolloutPhase::kGuardrails;
  result.holds = {hold};
  if (!result.decisions.empty()) {
    hold.at = at_second(1800);
    hold.current = hold.target = 8;
    hold.limited_by = decision::Limit::kStartingOrDraining;
    hold.cause = decision::Cause::kColdStart;
    hold.diagnosis = "replicas are on their way";
    result.holds.push_back(hold);
  }
  for (const decision::SeriesPoint& point : result.series) {
    decision::ForecastPoint forecast;
    forecast.at = point.at;
    if (!result.forecasts.empty())
      forecast.expected = {
          1.0 + 4.0 * tide(static_cast<std::uint64_t>(core::to_seconds(point.at)) + 120), 2048.0, {}, 0.25, 0.5};
    forecast.ttft_ms = 600.0;
    forecast.itl_ms = 25.0;
    forecast.capacity_by_pool = {1.25};
    result.forecasts.push_back(forecast);
  }
  return result;
}

// Given worst first, so that an output in order shows that it was ranked.
inline Report sample_report(std::size_t points) {
  Report report;
  report.info.workload = "azure-code-2024";
  report.info.requests = 10000;
  report.info.duration = std::chrono::seconds{3600};
  report.info.rate_scale = 1.5;
  report.info.rate_scale_spread = std::chrono::seconds{30};
  report.info.skipped_rows = 3;
  report.info.seed = 7;
  report.info.engine = "roofline: Llama 3.1 8B on H100";
  report.info.kv_blocks = 16384;
  report.info.router = "kv";
  report.info.start_up = std::chrono::seconds{90};
  PoolInfo pool;
  pool.replicas = 2;
  pool.max_replicas = 8;
  pool.price_per_gpu_hour = 2.5;
  pool.start_up = report.info.start_up;
  report.info.pools = {pool};
  report.info.price_per_gpu_hour = 2.5;
  report.info.command = "penstock replay azure-code-2024.csv --rate-scale 1.5 --seed 7 --policy all --frontier 1..8";
  report.info.version = "0.1.0";
  report.info.notes = {"dynamo-latency left out: it needs a prefill and a decode pool"};
  for (const SampleFleet& fleet : {SampleFleet{"static", 2, 2, 0.5, 3.0}, SampleFleet{"hpa-rate", 2, 6, 0.875, 2.0},
                                   SampleFleet{"kpa", 2, 8, 0.96875, 1.25}, SampleFleet{"static", 4, 4, 0.875, 2.25}})
    report.results.push_back(sample_result(fleet, points));
  for (std::uint32_t size = 1; size <= 8; ++size) {
    const double attainment = size >= 7 ? 0.984375 : static_cast<double>(size) / 8.0;
    decision::RunResult result = sample_result({"static", size, size, attainment, 4.0 / size}, 1);
    report.frontier.push_back(std::move(result));
  }
  return report;
}

// The same where some requests have a target of their own, and none of the last kind is sent.
inline Report targeted_report() {
  Report report = sample_report(12);
  for (decision::RunResult& result : report.results) {
    const auto kept = [&](double requests, double missed) {
      return static_cast<std::uint64_t>(requests * (1.0 - (1.0 - result.slo_attainment) * missed));
    };
    result.targets = {{"general", {}, 0.99, 6000, kept(6000, 1.0), kept(6000, 0.5), kept(6000, 0.5)},
                      {"chat",
                       {std::chrono::milliseconds{500}, std::chrono::milliseconds{40}},
                       0.95,
                       4000,
                       kept(4000, 1.25),
                       kept(4000, 1.0),
                       kept(4000, 0.75)},
                      {"nightly", {std::chrono::minutes{1}, std::chrono::seconds{1}}, 0.5, 0, 0, 0, 0}};
  }
  return report;
}

// Names that try to leave their place: markup, a chart's markup, a template, a terminal's escape, half of a character.
inline constexpr const char* kHostileName = "</script><img src=x onerror=alert(1)>{{data}}\x1b[31m\xff%{x}<b>&lt;";

inline Report hostile_report() {
  Report report = sample_report(60);
  report.info.workload = kHostileName;
  report.info.command = std::string("penstock replay '") + kHostileName + "'";
  report.info.engine = kHostileName;
  report.info.notes = {kHostileName};
  for (decision::RunResult& result : report.results) {
    if (result.policy == "kpa") result.policy = kHostileName;
    result.targets = {{"general", {}, 0.99, 1, 1, 1, 1}, {kHostileName, {}, 0.99, 1, 0, 0, 0}};
    for (auto& segment : result.segments)
      if (segment.dimension == "tenant") segment.label = std::string(segment.label) + kHostileName;
    for (auto& note : result.decisions) {
      note.pool = kHostileName;
      note.evidence = {{kHostileName, 1.0, kHostileName}};
    }
    for (auto& failure : result.failures) failure.reason = kHostileName;
  }
  decision::RunResult told = diagnosed_result(60);
  told.policy = kHostileName;
  for (std::vector<decision::DecisionRecord>* notes : {&told.decisions, &told.holds})
    for (auto& note : *notes) note.pool = note.diagnosis = kHostileName;
  report.results.push_back(std::move(told));
  return report;
}

// The same report for two deployments, one of them with a hostile name.
inline DeploymentsReport two_deployments() {
  DeploymentsReport made;
  made.version = "0.1.0";
  made.command = "penstock replay --config deployments.yaml";
  for (const char* name : {"chat", kHostileName}) {
    made.deployments.push_back({name, name, 0, 1.0, sample_report(60)});
    for (decision::RunResult& result : made.deployments.back().report.results) {
      result.budget_use = {.peak_gpus = 8, .limited_times = 3, .limited_s = 90.0};
      result.targets = {{"general", {}, 0.99, 100, 90, 90, 90}};
    }
  }
  for (const decision::RunResult& result : made.deployments.front().report.results)
    made.policies.push_back({result.policy, result.policy == "kpa", 12, {{"GPUs", 12.0, 16.0}}});
  return made;
}

// A report whose best policy diagnoses, forecasts and stands in a phase of its rollout.
inline Report diagnosed_report() {
  Report report = sample_report(120);
  report.results.push_back(diagnosed_result(120));
  return report;
}

}  // namespace penstock::report::testing
