#include "report/document.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>

#include "report/ranking.h"
#include "report/thinning.h"

namespace penstock::report {

using Json = nlohmann::ordered_json;
using signals::DecisionNote;
using signals::OutlookPoint;
using signals::RunResult;
using signals::SeriesPoint;

Json json_number(double value) { return std::isfinite(value) ? Json(value + 0.0) : Json(); }

namespace {

// No latency is zero: a maximum of zero says that nothing was measured.
Json summary(const core::Summary& summary) {
  const auto figure = [&](double value) { return summary.max > 0.0 ? json_number(value) : Json(); };
  return {{"mean", figure(summary.mean)}, {"p50", figure(summary.p50)}, {"p90", figure(summary.p90)},
          {"p95", figure(summary.p95)},   {"p99", figure(summary.p99)}, {"max", figure(summary.max)}};
}

Json totals(const RankedResult& ranked, bool wall_speed) {
  const RunResult& result = *ranked.result;
  Json json = {{"policy", result.policy},
               {"replicas", result.replicas},
               {"requests", result.requests},
               {"completed", result.completed},
               {"failed", result.failed},
               {"slo_attainment", json_number(result.slo_attainment)},
               {"goodput_rps", json_number(result.goodput_rps)},
               {"gpu_hours", json_number(result.gpu_hours)},
               {"cost", json_number(result.cost)},
               {"ttft_ms", summary(result.ttft_ms)},
               {"itl_ms", summary(result.itl_ms)},
               {"e2e_ms", summary(result.e2e_ms)},
               {"prefix_hit_ratio", json_number(result.prefix_hit_ratio)},
               {"preemptions", result.preemptions},
               {"scaling_actions", result.scaling_actions}};
  if (wall_speed) json["simulated_requests_per_s"] = json_number(result.simulated_requests_per_s);
  json["label"] = ranked.label;
  json["router"] = result.router;
  json["duration_s"] = json_number(result.duration_s);
  json["peak_replicas"] = result.peak_replicas;
  json["mean_replicas"] = json_number(result.mean_replicas);
  json["direction_changes"] = result.direction_changes;
  json["ttft_attainment"] = json_number(result.ttft_attainment);
  json["itl_attainment"] = json_number(result.itl_attainment);
  json["tpot_ms"] = summary(result.tpot_ms);
  json["failures"] = Json::array();
  for (const auto& failure : result.failures)
    json["failures"].push_back({{"reason", failure.reason}, {"requests", failure.requests}});
  return json;
}

// Columns, because thousands of equal keys would be most of the file.
Json series(const std::vector<SeriesPoint>& points) {
  Json json = Json::object();
  const auto column = [&](const char* name, const auto& value) {
    Json values = Json::array();
    for (const SeriesPoint& point : points) values.push_back(value(point));
    json[name] = std::move(values);
  };
  const auto when = [](bool known, double value) { return known ? json_number(value) : Json(); };
  column("at_s", [](const auto& p) { return core::to_seconds(p.at); });
  column("arrivals_per_s", [](const auto& p) { return json_number(p.arrivals_per_s); });
  column("input_tokens_per_s", [](const auto& p) { return json_number(p.input_tokens_per_s); });
  column("output_tokens_per_s", [](const auto& p) { return json_number(p.output_tokens_per_s); });
  column("target_replicas", [](const auto& p) { return p.target; });
  column("starting_replicas", [](const auto& p) { return p.starting; });
  column("ready_replicas", [](const auto& p) { return p.ready; });
  column("draining_replicas", [](const auto& p) { return p.draining; });
  const auto by_pool = [](const SeriesPoint& p) { return p.ready_by_pool.size() > 1; };
  if (std::any_of(points.begin(), points.end(), by_pool))
    column("ready_replicas_by_pool", [](const auto& p) { return Json(p.ready_by_pool); });
  column("queued_requests", [](const auto& p) { return p.queued_requests; });
  column("running_requests", [](const auto& p) { return p.running_requests; });
  column("kv_usage", [](const auto& p) { return json_number(p.kv_usage); });
  column("first_tokens", [](const auto& p) { return p.first_tokens; });
  column("ttft_p50_ms", [&](const auto& p) { return when(p.first_tokens > 0, p.ttft_p50_ms); });
  column("ttft_p95_ms", [&](const auto& p) { return when(p.first_tokens > 0, p.ttft_p95_ms); });
  column("completed", [](const auto& p) { return p.completed; });
  // All of an interval's answers may be one token long: completed, and no gap to measure.
  column("itl_p50_ms", [&](const auto& p) { return when(p.completed > 0 && p.itl_p95_ms > 0.0, p.itl_p50_ms); });
  column("itl_p95_ms", [&](const auto& p) { return when(p.completed > 0 && p.itl_p95_ms > 0.0, p.itl_p95_ms); });
  column("arrived", [](const auto& p) { return p.arrived; });
  column("met_slo", [](const auto& p) { return p.met_slo; });
  return json;
}

std::string cut_between_words(const std::string& text, std::optional<std::size_t> bytes_max) {
  if (!bytes_max || text.size() <= *bytes_max) return text;
  const std::size_t blank = text.rfind(' ', *bytes_max);
  return text.substr(0, blank == std::string::npos ? *bytes_max : blank) + " …";
}

// What not every policy says, only where it was said.
void add_what_was_said(Json& json, const DecisionNote& note, const DocumentOptions& options) {
  if (!note.cause.empty()) json["cause"] = note.cause;
  if (!note.diagnosis.empty()) json["diagnosis"] = cut_between_words(note.diagnosis, options.diagnosis_bytes_max);
  if (!note.phase.empty()) json["phase"] = note.phase;
  if (note.next_phase_target) json["next_phase_target"] = *note.next_phase_target;
  if (note.outlook && note.outlook->requests_per_s)
    json["expected_requests_per_s"] = json_number(*note.outlook->requests_per_s);
}

Json decisions(const RunResult& result, const DocumentOptions& options) {
  Json json = Json::array();
  const std::size_t count = std::min(options.decisions_max.value_or(SIZE_MAX), result.decisions.size());
  for (std::size_t i = 0; i < count; ++i) {
    const DecisionNote& note = result.decisions[i];
    json.push_back({{"at_s", core::to_seconds(note.at)},
                    {"pool", note.pool},
                    {"current", note.current},
                    {"target", note.target},
                    {"reason", note.reason},
                    {"limited_by", note.limited_by},
                    {"evidence", note.sentence}});
    add_what_was_said(json.back(), note, options);
  }
  return json;
}

// Why nothing changed, without the evidence, which the decision log has.
Json holds(const RunResult& result, const DocumentOptions& options) {
  Json json = Json::array();
  const std::size_t count = std::min(options.decisions_max.value_or(SIZE_MAX), result.holds.size());
  for (std::size_t i = 0; i < count; ++i) {
    const DecisionNote& note = result.holds[i];
    json.push_back({{"at_s", core::to_seconds(note.at)},
                    {"pool", note.pool},
                    {"target", note.target},
                    {"reason", note.reason},
                    {"limited_by", note.limited_by}});
    add_what_was_said(json.back(), note, options);
  }
  return json;
}

// In columns as the series; a column of which nothing is known is left out.
Json outlooks(const RunResult& result, const DocumentOptions& options) {
  const std::vector<OutlookPoint>& all = result.outlooks;
  const std::size_t most = std::max<std::size_t>(1, options.series_points_max.value_or(SIZE_MAX));
  const std::size_t step = all.empty() ? 1 : (all.size() - 1) / most + 1;
  Json json = Json::object();
  const auto column = [&](const char* name, const auto& value) {
    Json values = Json::array();
    bool any = false;
    for (std::size_t i = 0; i < all.size(); i += step) {
      values.push_back(value(all[i]));
      any |= !values.back().is_null();
    }
    if (any) json[name] = std::move(values);
  };
  const auto known = [](const std::optional<double>& value) { return value ? json_number(*value) : Json(); };
  column("at_s", [](const OutlookPoint& p) { return Json(core::to_seconds(p.at)); });
  column("expected_requests_per_s", [&](const OutlookPoint& p) { return known(p.expected.requests_per_s); });
  column("expected_input_tokens", [&](const OutlookPoint& p) { return known(p.expected.input_tokens); });
  column("expected_output_tokens", [&](const OutlookPoint& p) { return known(p.expected.output_tokens); });
  column("forecast_error", [&](const OutlookPoint& p) { return known(p.expected.error); });
  column("naive_forecast_error", [&](const OutlookPoint& p) { return known(p.expected.naive_error); });
  column("estimated_ttft_ms", [&](const OutlookPoint& p) { return known(p.ttft_ms); });
  column("estimated_itl_ms", [&](const OutlookPoint& p) { return known(p.itl_ms); });
  column("capacity_by_pool", [&](const OutlookPoint& p) {
    Json pools = Json::array();
    bool any = false;
    for (const std::optional<double>& capacity : p.capacity_by_pool) {
      pools.push_back(known(capacity));
      any |= capacity.has_value();
    }
    return any ? pools : Json();
  });
  return json;
}

Json segments(const RunResult& result) {
  Json json = Json::array();
  for (const signals::SegmentResult& segment : result.segments)
    json.push_back({{"dimension", segment.dimension},
                    {"label", segment.label},
                    {"requests", segment.requests},
                    {"failed", segment.failed},
                    {"slo_attainment", json_number(segment.slo_attainment)},
                    {"ttft_ms", summary(segment.ttft_ms)},
                    {"itl_ms", summary(segment.itl_ms)}});
  return json;
}

// Each target and how many of its requests kept it; shares of no requests are null.
Json targets(const RunResult& result) {
  Json json = Json::array();
  for (const signals::TargetResult& target : result.targets) {
    const auto share = [&](std::uint64_t met) {
      return target.requests > 0 ? Json(static_cast<double>(met) / static_cast<double>(target.requests)) : Json();
    };
    json.push_back({{"name", target.name},
                    {"ttft_limit_ms", core::to_milliseconds(target.target.ttft)},
                    {"itl_limit_ms", core::to_milliseconds(target.target.itl)},
                    {"goal", json_number(target.goal)},
                    {"requests", target.requests},
                    {"slo_attainment", share(target.met)},
                    {"ttft_attainment", share(target.ttft_met)},
                    {"itl_attainment", share(target.itl_met)},
                    {"goal_kept", target.attainment() >= target.goal}});
  }
  return json;
}

Json workload(const RunInfo& info) {
  return {{"name", info.workload},
          {"requests", info.requests},
          {"duration_s", core::to_seconds(info.duration)},
          {"rate_scale", json_number(info.rate_scale)},
          {"skipped_rows", info.skipped_rows}};
}

Json run_options(const RunInfo& info) {
  Json pools = Json::array();
  for (const PoolInfo& pool : info.pools)
    pools.push_back({{"name", pool.name},
                     {"role", signals::to_string(pool.role)},
                     {"replicas", pool.replicas},
                     {"min_replicas", pool.min_replicas},
                     {"max_replicas", pool.max_replicas},
                     {"gpus_per_replica", pool.gpus_per_replica},
                     {"price_per_gpu_hour", json_number(pool.price_per_gpu_hour)},
                     {"start_up_s", core::to_seconds(pool.start_up)}});
  const Json slo = {{"ttft_ms", core::to_milliseconds(info.slo.ttft)}, {"itl_ms", core::to_milliseconds(info.slo.itl)}};
  return {{"slo", slo},
          {"seed", info.seed},
          {"engine", info.engine},
          {"block_tokens", info.block_tokens},
          {"kv_blocks", info.kv_blocks},
          {"router", info.router},
          {"start_up_s", core::to_seconds(info.start_up)},
          {"price_per_gpu_hour", json_number(info.price_per_gpu_hour)},
          {"pools", pools},
          {"command", info.command}};
}

}  // namespace

Json make_document(const Report& report, const DocumentOptions& options) {
  Json json = {{"penstock", report.info.version},
               {"headline", headline(report)},
               {"workload", workload(report.info)},
               {"options", run_options(report.info)},
               {"notes", report.info.notes}};
  json["results"] = Json::array();
  for (const RankedResult& ranked : rank(report.results)) {
    const RunResult& result = *ranked.result;
    Json entry = totals(ranked, options.wall_speed);
    entry["series"] =
        series(options.series_points_max ? thin(result.series, *options.series_points_max) : result.series);
    entry["decisions_total"] = result.decisions.size();
    entry["decisions"] = decisions(result, options);
    if (!result.holds.empty()) entry["holds"] = holds(result, options);
    if (!result.outlooks.empty()) entry["outlooks"] = outlooks(result, options);
    entry["segments"] = segments(result);
    if (result.targets.size() > 1) entry["targets"] = targets(result);
    json["results"].push_back(std::move(entry));
  }
  json["frontier"] = Json::array();
  for (const RankedResult& ranked : rank(report.frontier))
    json["frontier"].push_back(totals(ranked, options.wall_speed));
  return json;
}

}  // namespace penstock::report
