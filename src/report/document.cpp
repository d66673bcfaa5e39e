#include "report/document.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>

#include "decision/engine_settings.h"
#include "decision/fields.h"
#include "report/answer.h"
#include "report/ranking.h"
#include "report/thinning.h"
#include "report/token_cost.h"

namespace penstock::report {

using Json = nlohmann::ordered_json;
using decision::DecisionRecord;
using decision::ForecastPoint;
using decision::Rendering;
using decision::RunResult;
using decision::SeriesPoint;

Json json_number(double value) { return std::isfinite(value) ? Json(value + 0.0) : Json(); }

namespace {

Json json_of(const decision::FieldValue& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  if (const auto* count = std::get_if<std::uint32_t>(&value)) return *count;
  return json_number(std::get<double>(value));
}

bool is_empty(const decision::FieldValue& value) {
  const auto* text = std::get_if<std::string>(&value);
  return std::holds_alternative<std::monostate>(value) || (text != nullptr && text->empty());
}

Json json_of(const decision::Candidate& tried, const std::vector<std::string>& pools) {
  Json replicas = Json::object();
  for (std::size_t i = 0; i < tried.replicas.size(); ++i)
    replicas[i < pools.size() ? pools[i] : fmt::format("pool {}", i)] = tried.replicas[i];
  return {{"replicas", replicas},
          {"slo_attainment", json_number(tried.slo_attainment)},
          {"ttft_attainment", json_number(tried.ttft_attainment)},
          {"itl_attainment", json_number(tried.itl_attainment)},
          {"chosen", tried.chosen}};
}

}  // namespace

Json engine_setting_json(std::string_view rule) {
  const decision::EngineSetting& setting = decision::engine_setting(rule);
  return {{"rule", setting.rule},
          {"advice", setting.advice},
          {"vllm", setting.vllm},
          {"sglang", setting.sglang},
          {"triton", setting.triton}};
}

Json engine_settings_json(decision::Cause cause) {
  Json json = Json::array();
  for (const decision::EngineSetting& each : decision::settings_against(cause))
    json.push_back(engine_setting_json(each.rule));
  return json;
}

Json decision_json(const DecisionRecord& record, Rendering rendering) {
  Json json = Json::object();
  const auto add_lists = [&] {
    json["evidence"] = Json::array();
    json["candidates"] = Json::array();
    for (const decision::Evidence& each : record.evidence)
      json["evidence"].push_back({{"name", each.name}, {"value", json_number(each.value)}, {"unit", each.unit}});
    for (const decision::Candidate& tried : record.candidates)
      json["candidates"].push_back(json_of(tried, record.pools));
  };
  for (const decision::Field& field : decision::fields()) {
    if (!field.is_in(rendering)) continue;
    const decision::FieldValue value = field.get(record);
    const bool flat = rendering == Rendering::kReport || rendering == Rendering::kReportHold;
    if (field.always || !is_empty(value))
      (field.group.empty() || flat ? json[field.column()] : json[std::string{field.group}][std::string{field.name}]) =
          json_of(value);
    if (field.name == decision::kBeforeLists && !flat) add_lists();
  }
  return json;
}

namespace {

// A maximum of zero means that no latency was measured.
Json summary(const core::Summary& summary) {
  const auto figure = [&](double value) { return summary.max > 0.0 ? json_number(value) : Json(); };
  return {{"mean", figure(summary.mean)}, {"p50", figure(summary.p50)}, {"p90", figure(summary.p90)},
          {"p95", figure(summary.p95)},   {"p99", figure(summary.p99)}, {"max", figure(summary.max)}};
}

Json gateway(const RunResult& result) {
  Json json = {{"waited", result.waited},
               {"queue_wait_ms", summary(result.queue_wait_ms)},
               {"retried", result.retried},
               {"clamped", result.clamped},
               {"truncated_prompts", result.truncated_prompts},
               {"deferral",
                {{"deferred", result.deferral.deferred},
                 {"sent_spare", result.deferral.sent_spare},
                 {"sent_due", result.deferral.sent_due},
                 {"missed", result.deferral.missed}}},
               {"tenants", Json::array()}};
  for (const decision::TenantResult& tenant : result.tenants) {
    Json row = {{"name", tenant.name},
                {"requests", tenant.requests},
                {"completed", tenant.completed},
                {"refused", tenant.refused},
                {"prompt_tokens", tenant.prompt_tokens},
                {"cached_tokens", tenant.cached_tokens},
                {"output_tokens", tenant.output_tokens},
                {"token_cost", json_number(tenant.token_cost)}};
    if (const auto cost = gpu_cost_of(tenant, result)) row["gpu_cost"] = json_number(*cost);
    if (tenant.budget_share) row["budget_share"] = json_number(*tenant.budget_share);
    json["tenants"].push_back(std::move(row));
  }
  return json;
}

Json totals(const RankedResult& ranked, bool wall_speed) {
  const RunResult& result = *ranked.result;
  Json json = {{"policy", result.policy},
               {"replicas", result.replicas},
               {"requests", result.requests},
               {"completed", result.completed},
               {"failed", result.failed},
               {"slo_attainment", json_number(result.slo_attainment)},
               {"burst_requests", result.bursts.requests},
               {"burst_attainment", json_number(result.bursts.attainment().value_or(NAN))},
               {"goodput_rps", json_number(result.goodput_rps)},
               {"gpu_hours", json_number(result.gpu_hours)},
               {"cost", json_number(result.cost)},
               {"ttft_ms", summary(result.ttft_ms)},
               {"itl_ms", summary(result.itl_ms)},
               {"e2e_ms", summary(result.e2e_ms)},
               {"prefix_hit_ratio", json_number(result.prefix_hit_ratio)},
               {"preemptions", result.preemptions},
               {"scaling_actions", result.scaling_actions}};
  if (const auto& use = result.budget_use)
    json["budget_use"] = {{"peak_gpus", use->peak_gpus},
                          {"limited_times", use->limited_times},
                          {"limited_s", json_number(use->limited_s)},
                          {"withheld_gpu_hours", json_number(use->withheld_gpu_hours)}};
  if (wall_speed) json["simulated_requests_per_s"] = json_number(result.simulated_requests_per_s);
  const TokenCosts costs = token_costs(result);
  const auto usd = [](const std::optional<double>& cost) { return cost ? json_number(*cost) : Json(); };
  json["gpu_usd_per_1m_tokens"] = {{"input", usd(costs.input)},
                                   {"output", usd(costs.output)},
                                   {"input_at_slo", usd(costs.input_at_slo)},
                                   {"output_at_slo", usd(costs.output_at_slo)}};
  json["label"] = ranked.label;
  if (result.goal) {
    json["goal"] = json_number(*result.goal);
    json["goal_kept"] = result.slo_attainment >= *result.goal;
  }
  json["router"] = result.router;
  json["duration_s"] = json_number(result.duration_s);
  json["peak_replicas"] = result.peak_replicas;
  json["mean_replicas"] = json_number(result.mean_replicas);
  if (result.mean_asleep > 0.0) json["mean_asleep"] = json_number(result.mean_asleep);
  if (result.role_switches > 0) json["role_switches"] = result.role_switches;
  json["direction_changes"] = result.direction_changes;
  json["ttft_attainment"] = json_number(result.ttft_attainment);
  json["itl_attainment"] = json_number(result.itl_attainment);
  json["tpot_ms"] = summary(result.tpot_ms);
  json["failures"] = Json::array();
  for (const auto& failure : result.failures)
    json["failures"].push_back({{"reason", failure.reason}, {"requests", failure.requests}});
  if (!result.tenants.empty()) json["gateway"] = gateway(result);
  return json;
}

// Columns avoid thousands of equal keys.
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
  if (std::any_of(points.begin(), points.end(), [](const SeriesPoint& p) { return p.asleep > 0; }))
    column("asleep_replicas", [](const auto& p) { return p.asleep; });
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
  // All responses of an interval may have one token, and then no ITL.
  column("itl_p50_ms", [&](const auto& p) { return when(p.completed > 0 && p.itl_p95_ms > 0.0, p.itl_p50_ms); });
  column("itl_p95_ms", [&](const auto& p) { return when(p.completed > 0 && p.itl_p95_ms > 0.0, p.itl_p95_ms); });
  column("arrived", [](const auto& p) { return p.arrived; });
  column("judged", [](const auto& p) { return p.judged; });
  column("met_slo", [](const auto& p) { return p.met_slo; });
  return json;
}

std::string cut_between_words(const std::string& text, std::optional<std::size_t> bytes_max) {
  if (!bytes_max || text.size() <= *bytes_max) return text;
  const std::size_t blank = text.rfind(' ', *bytes_max);
  return text.substr(0, blank == std::string::npos ? *bytes_max : blank) + " …";
}

// The first changes or holds.
Json decisions(const std::vector<DecisionRecord>& records, Rendering rendering, const DocumentOptions& options) {
  Json json = Json::array();
  const std::size_t count = std::min(options.decisions_max.value_or(SIZE_MAX), records.size());
  for (std::size_t i = 0; i < count; ++i) {
    json.push_back(decision_json(records[i], rendering));
    if (!records[i].diagnosis.empty())
      json.back()["diagnosis"] = cut_between_words(records[i].diagnosis, options.diagnosis_bytes_max);
  }
  return json;
}

// In columns as the series, without columns that have no value.
Json forecasts(const RunResult& result, const DocumentOptions& options) {
  const std::vector<ForecastPoint>& all = result.forecasts;
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
  column("at_s", [](const ForecastPoint& p) { return Json(core::to_seconds(p.at)); });
  column("expected_requests_per_s", [&](const ForecastPoint& p) { return known(p.expected.requests_per_s); });
  column("expected_input_tokens", [&](const ForecastPoint& p) { return known(p.expected.input_tokens); });
  column("expected_output_tokens", [&](const ForecastPoint& p) { return known(p.expected.output_tokens); });
  column("forecast_error", [&](const ForecastPoint& p) { return known(p.expected.error); });
  column("naive_forecast_error", [&](const ForecastPoint& p) { return known(p.expected.naive_error); });
  column("estimated_ttft_ms", [&](const ForecastPoint& p) { return known(p.ttft_ms); });
  column("estimated_itl_ms", [&](const ForecastPoint& p) { return known(p.itl_ms); });
  column("capacity_by_pool", [&](const ForecastPoint& p) {
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

// The figures by which the policy decided, in columns by pool; null where it did not state one.
Json evidence(const RunResult& result, const RunInfo& info) {
  Json json = Json::object();
  json["at_s"] = Json::array();
  for (const decision::EvidencePoint& point : result.evidence) json["at_s"].push_back(core::to_seconds(point.at));
  for (std::size_t pool = 0; pool < result.evidence.front().by_pool.size(); ++pool) {
    Json targets = Json::array(), columns = Json::object();
    for (std::size_t i = 0; i < result.evidence.size(); ++i) {
      const decision::EvidencePoint& point = result.evidence[i];
      targets.push_back(point.target_by_pool[pool]);
      for (const decision::Evidence& each : point.by_pool[pool]) {
        Json& column = columns[each.name];
        if (column.is_null()) column = {{"unit", each.unit}, {"values", Json(result.evidence.size(), Json())}};
        column["values"][i] = json_number(each.value);
      }
    }
    json["pools"][pool < info.pools.size() ? info.pools[pool].name : fmt::format("pool {}", pool)] = {
        {"target_replicas", std::move(targets)}, {"evidence", std::move(columns)}};
  }
  return json;
}

Json segments(const RunResult& result) {
  Json json = Json::array();
  for (const decision::SegmentResult& segment : result.segments)
    json.push_back({{"dimension", segment.dimension},
                    {"label", segment.label},
                    {"requests", segment.requests},
                    {"failed", segment.failed},
                    {"slo_attainment", json_number(segment.slo_attainment)},
                    {"ttft_ms", summary(segment.ttft_ms)},
                    {"itl_ms", summary(segment.itl_ms)}});
  return json;
}

// Each target with the attainment of its requests; shares of no requests are null.
Json targets(const RunResult& result) {
  Json json = Json::array();
  for (const decision::TargetResult& target : result.targets) {
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
    if (target.target.e2e) json.back()["e2e_limit_ms"] = core::to_milliseconds(*target.target.e2e);
  }
  return json;
}

Json workload(const RunInfo& info) {
  return {{"name", info.workload},
          {"requests", info.requests},
          {"duration_s", core::to_seconds(info.duration)},
          {"rate_scale", json_number(info.rate_scale)},
          {"rate_scale_spread_s", core::to_seconds(info.rate_scale_spread)},
          {"score_from_s", core::to_seconds(info.score_from)},
          {"skipped_rows", info.skipped_rows}};
}

Json run_options(const RunInfo& info) {
  Json pools = Json::array();
  for (const PoolInfo& pool : info.pools) {
    pools.push_back({{"name", pool.name},
                     {"role", signals::to_string(pool.role)},
                     {"replicas", pool.replicas},
                     {"min_replicas", pool.min_replicas},
                     {"max_replicas", pool.max_replicas},
                     {"gpus_per_replica", pool.gpus_per_replica},
                     {"price_per_gpu_hour", json_number(pool.price_per_gpu_hour)},
                     {"start_up_s", core::to_seconds(pool.start_up)}});
    for (const auto& [name, value] : pool.capacity) pools.back()["capacity"][name] = json_number(value);
    if (pool.switch_time > core::Duration{}) pools.back()["switch_time_s"] = core::to_seconds(pool.switch_time);
    if (pool.wake_time > core::Duration{})
      pools.back().update({{"wake_time_s", core::to_seconds(pool.wake_time)},
                           {"sleep_price", json_number(pool.sleep_price)},
                           {"asleep", pool.min_asleep}});
  }
  Json slo = {{"ttft_ms", core::to_milliseconds(info.slo.ttft)}, {"itl_ms", core::to_milliseconds(info.slo.itl)}};
  if (info.slo.e2e) slo["e2e_ms"] = core::to_milliseconds(*info.slo.e2e);
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

Json answer(const Report& report) {
  const Answer answer = answer_of(report);
  if (answer.text.empty()) return {};
  Json json = {{"goal", json_number(answer.goal)}, {"text", answer.text}};
  const auto add = [&](const char* name, const Choice& choice) {
    if (choice.result == nullptr) return void(json[name] = Json());
    json[name] = {{"label", choice.label},
                  {"policy", choice.result->policy},
                  {"replicas", choice.result->replicas},
                  {"reaches_goal", choice.reaches},
                  {"slo_attainment", json_number(choice.result->slo_attainment)},
                  {"gpu_hours", json_number(choice.result->gpu_hours)},
                  {"cost", json_number(choice.result->cost)}};
  };
  add("cheapest_fixed", answer.fixed);
  add("cheapest_rule", answer.rule);
  add("penstock", answer.penstock);
  if (answer.fixed.result == &report.fixed->result) json["cheapest_fixed"]["replicas_by_pool"] = report.fixed->replicas;
  return json;
}

}  // namespace

Json make_document(const Report& report, const DocumentOptions& options) {
  Json json = {
      {"penstock", report.info.version},   {"headline", headline(report)},        {"answer", answer(report)},
      {"workload", workload(report.info)}, {"options", run_options(report.info)}, {"notes", report.info.notes}};
  json["results"] = Json::array();
  for (const RankedResult& ranked : rank(report.results)) {
    const RunResult& result = *ranked.result;
    Json entry = totals(ranked, options.wall_speed);
    entry["series"] =
        series(options.series_points_max ? thin(result.series, *options.series_points_max) : result.series);
    entry["decisions_total"] = result.decisions.size();
    entry["decisions"] = decisions(result.decisions, Rendering::kReport, options);
    if (!result.holds.empty()) entry["holds"] = decisions(result.holds, Rendering::kReportHold, options);
    if (!result.forecasts.empty()) entry["forecasts"] = forecasts(result, options);
    if (!result.evidence.empty() && !options.series_points_max) entry["evidence"] = evidence(result, report.info);
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
