#include "report/json.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "report/document.h"
#include "report/report_testing.h"

namespace penstock::report {
namespace {

using Json = nlohmann::ordered_json;

Json parsed(const Report& report) { return Json::parse(to_json(report)); }

TEST(Json, HoldsTheKeysThatOtherProgramsReadInEveryResult) {
  const Json json = parsed(testing::sample_report(12));
  ASSERT_EQ(json["results"].size(), 4U);
  for (const Json& result : json["results"]) {
    for (const char* key : {"policy",
                            "replicas",
                            "requests",
                            "completed",
                            "failed",
                            "slo_attainment",
                            "goodput_rps",
                            "gpu_hours",
                            "cost",
                            "ttft_ms",
                            "itl_ms",
                            "e2e_ms",
                            "tpot_ms",
                            "prefix_hit_ratio",
                            "preemptions",
                            "scaling_actions",
                            "direction_changes",
                            "simulated_requests_per_s",
                            "series",
                            "decisions",
                            "segments",
                            "failures"})
      EXPECT_TRUE(result.contains(key)) << key;
    for (const char* latency : {"ttft_ms", "itl_ms", "e2e_ms", "tpot_ms"}) {
      std::vector<std::string> figures;
      for (const auto& item : result[latency].items()) figures.push_back(item.key());
      EXPECT_EQ(figures, (std::vector<std::string>{"mean", "p50", "p90", "p95", "p99", "max"})) << latency;
    }
  }
}

TEST(Json, PutsTheBestResultFirst) {
  const Json json = parsed(testing::sample_report(1));
  EXPECT_EQ(json["results"][0]["policy"], "kpa");
  EXPECT_EQ(json["results"][0]["slo_attainment"], 0.96875);
  EXPECT_EQ(json["results"][3]["label"], "static 2");
}

TEST(Json, PutsTheStaticFleetsThatWereTriedIntoTheFrontier) {
  const Json json = parsed(testing::sample_report(1));
  ASSERT_EQ(json["frontier"].size(), 8U);
  EXPECT_EQ(json["frontier"][0]["replicas"], 7);
  EXPECT_TRUE(json["frontier"][0].contains("ttft_ms"));
  EXPECT_FALSE(json["frontier"][0].contains("series"));
}

TEST(Json, HasAnEmptyFrontierIfNoneWasRequested) {
  Report report = testing::sample_report(1);
  report.frontier.clear();
  EXPECT_EQ(parsed(report)["frontier"], Json::array());
}

TEST(Json, HasTheOptionsToRepeatTheRun) {
  const Json json = parsed(testing::sample_report(1));
  EXPECT_EQ(json["penstock"], "0.1.0");
  EXPECT_EQ(json["options"]["seed"], 7);
  EXPECT_EQ(json["options"]["slo"]["ttft_ms"], 2000);
  EXPECT_EQ(json["options"]["pools"][0]["max_replicas"], 8);
  EXPECT_EQ(json["workload"]["skipped_rows"], 3);
  EXPECT_EQ(json["options"]["command"], testing::sample_report(1).info.command);
}

TEST(Json, HasTheCapacityOfAReplicaOnlyIfAPolicyNeededIt) {
  Report report = testing::sample_report(3);
  EXPECT_FALSE(parsed(report)["options"]["pools"][0].contains("capacity"));
  report.info.pools[0].capacity = {{"requests_per_s", 2.5}, {"concurrency", 12.0}};
  const Json capacity = parsed(report)["options"]["pools"][0]["capacity"];
  EXPECT_EQ(capacity, Json::parse(R"({"requests_per_s": 2.5, "concurrency": 12.0})"));
}

TEST(Json, ListsTargetsOnlyIfThereAreSeveral) {
  Report report = testing::targeted_report();
  const Json targets = parsed(report)["results"][0]["targets"];
  ASSERT_EQ(targets.size(), 3U);
  EXPECT_EQ(targets[1]["name"], "chat");
  EXPECT_EQ(targets[1]["ttft_limit_ms"], 500);
  EXPECT_EQ(targets[1]["itl_limit_ms"], 40);
  EXPECT_EQ(targets[1]["goal"], 0.95);
  EXPECT_EQ(targets[1]["requests"], 4000);
  EXPECT_EQ(targets[1]["slo_attainment"], 3843.0 / 4000.0);
  EXPECT_EQ(targets[1]["goal_kept"], true);
  EXPECT_EQ(targets[0]["goal_kept"], false);
  EXPECT_TRUE(targets[2]["slo_attainment"].is_null());
  EXPECT_FALSE(targets[1].contains("e2e_limit_ms"));
  EXPECT_FALSE(parsed(report)["options"]["slo"].contains("e2e_ms"));
  report.info.slo.e2e = report.results[0].targets[1].target.e2e = std::chrono::seconds{5};
  EXPECT_EQ(parsed(report)["options"]["slo"]["e2e_ms"], 5000);
  for (auto& result : report.results) result.targets.resize(1);
  EXPECT_FALSE(parsed(report)["results"][0].contains("targets"));
}

TEST(Json, WritesEveryPointAndDecisionOfARun) {
  const Report report = testing::sample_report(120);
  const Json best = parsed(report)["results"][0];
  EXPECT_EQ(best["series"]["at_s"].size(), 120U);
  EXPECT_EQ(best["series"]["kv_usage"].size(), 120U);
  EXPECT_EQ(best["decisions"].size(), 12U);
  EXPECT_EQ(best["decisions"][0]["reason"], "load_above_target");
  EXPECT_EQ(best["decisions"][0]["current"], 2);
  EXPECT_EQ(best["decisions"][0]["target"], 3);
}

TEST(Json, ShowsReplicasByPoolOnlyWhereThereAreSeveral) {
  Report report = testing::sample_report(3);
  EXPECT_FALSE(parsed(report)["results"][0]["series"].contains("ready_replicas_by_pool"));
  for (auto& result : report.results)
    for (auto& point : result.series) point.ready_by_pool = {1, 2};
  EXPECT_EQ(parsed(report)["results"][0]["series"]["ready_replicas_by_pool"][2], (Json{1, 2}));
}

TEST(Json, HasTheEvidenceOfAPolicyOverTimeByPool) {
  Report report = testing::sample_report(4);
  report.info.pools.front().name = "default";
  report.results[1].evidence = {{core::Instant{core::from_seconds(15)}, {2}, {{{"request_rate", 1.5, "1/s"}}}},
                                {core::Instant{core::from_seconds(30)}, {3}, {{{"need", 2.25, "replicas"}}}}};
  const Json json = parsed(report);
  std::map<std::string, Json> by_label;
  for (const Json& result : json["results"]) by_label[result["label"]] = result;
  EXPECT_FALSE(by_label.at("static 2").contains("evidence"));
  const Json& evidence = by_label.at("hpa-rate")["evidence"];
  EXPECT_EQ(evidence["at_s"], Json({15.0, 30.0}));
  EXPECT_EQ(evidence["pools"]["default"]["target_replicas"], Json({2, 3}));
  const Json& columns = evidence["pools"]["default"]["evidence"];
  EXPECT_EQ(columns["request_rate"]["unit"], "1/s");
  EXPECT_EQ(columns["request_rate"]["values"], Json({1.5, nullptr}));
  EXPECT_EQ(columns["need"]["values"], Json({nullptr, 2.25}));
}

TEST(Json, StatesWhatWasScoredAndHowCopiesOfATraceWereMoved) {
  Report report = testing::sample_report(4);
  report.info.rate_scale_spread = std::chrono::minutes{10};
  report.info.score_from = std::chrono::minutes{7};
  report.results[0].bursts = {40, 30};
  const Json json = parsed(report);
  EXPECT_EQ(json["workload"]["rate_scale_spread_s"], 600.0);
  EXPECT_EQ(json["workload"]["score_from_s"], 420.0);
  for (const Json& result : json["results"]) {
    const bool has_bursts = result["burst_requests"] == 40;
    EXPECT_EQ(result["burst_attainment"], has_bursts ? Json(0.75) : Json());
  }
}

TEST(Json, ShowsReplicasAsleepOnlyWhereThereAreSome) {
  Report report = testing::sample_report(3);
  const Json without = parsed(report);
  EXPECT_FALSE(without["results"][0]["series"].contains("asleep_replicas"));
  EXPECT_FALSE(without["results"][0].contains("mean_asleep"));
  EXPECT_FALSE(without["options"]["pools"][0].contains("wake_time_s"));
  report.info.pools[0].wake_time = std::chrono::seconds{8};
  report.info.pools[0].min_asleep = 4;
  for (auto& result : report.results) {
    result.mean_asleep = 3.5;
    result.series[1].asleep = 4;
  }
  const Json with = parsed(report);
  EXPECT_EQ(with["results"][0]["series"]["asleep_replicas"], (Json{0, 4, 0}));
  EXPECT_EQ(with["results"][0]["mean_asleep"], 3.5);
  EXPECT_EQ(with["options"]["pools"][0]["wake_time_s"], 8.0);
  EXPECT_EQ(with["options"]["pools"][0]["sleep_price"], 0.15);
  EXPECT_EQ(with["options"]["pools"][0]["asleep"], 4);
}

TEST(Json, UnmeasuredFiguresAreNull) {
  Report report = testing::sample_report(3);
  report.results = {report.results[2]};
  report.results[0].ttft_ms = {};
  report.results[0].goodput_rps = NAN;
  const Json result = parsed(report)["results"][0];
  EXPECT_TRUE(result["ttft_ms"]["p95"].is_null());
  EXPECT_TRUE(result["goodput_rps"].is_null());
  EXPECT_TRUE(result["series"]["ttft_p95_ms"][0].is_null());
  EXPECT_TRUE(result["series"]["itl_p50_ms"][0].is_null());
  EXPECT_EQ(result["series"]["ttft_p95_ms"][1], report.results[0].series[1].ttft_p95_ms);
}

TEST(Json, IsValidUtf8WhateverBytesANameHolds) {
  Report report = testing::hostile_report();
  report.info.workload = "a\xff\xc3(\xe2\x82";
  const Json json = parsed(report);  // the parser refuses what is not UTF-8
  EXPECT_EQ(json["workload"]["name"], "a\xef\xbf\xbd\xef\xbf\xbd(\xef\xbf\xbd");
  EXPECT_NE(json["results"][0]["policy"].get<std::string>().find("</script>"), std::string::npos);
}

TEST(Json, HoldsEqualLinesForEqualRunsButForTheWallSpeed) {
  Report first = testing::sample_report(12), second = first;
  EXPECT_EQ(to_json(first), to_json(second));
  for (auto& result : second.results) result.simulated_requests_per_s *= 3.0;
  std::istringstream lines_a(to_json(first)), lines_b(to_json(second));
  std::string a, b;
  int different = 0;
  while (std::getline(lines_a, a) && std::getline(lines_b, b)) {
    if (a == b) continue;
    ++different;
    EXPECT_NE(a.find("\"simulated_requests_per_s\""), std::string::npos) << a;
  }
  EXPECT_EQ(different, 4);
}

TEST(Json, EndsWithANewlineAndKeepsASeriesOnOneLine) {
  const std::string text = to_json(testing::sample_report(12));
  EXPECT_TRUE(text.ends_with("}\n"));
  EXPECT_NE(text.find("\"target_replicas\": [2, 2, "), std::string::npos);
}

TEST(Json, WritesAnEmptyReport) {
  const Json json = parsed(Report{});
  EXPECT_EQ(json["results"], Json::array());
  EXPECT_EQ(json["headline"], "No policy was run.");
}

TEST(JsonNumbers, ReadBackEqual) {
  for (const double value : {0.1, 1.0 / 3.0, 1e-300, 1.7976931348623157e308, 123456789.125, -0.0, 5e-324})
    EXPECT_EQ(Json::parse(write_json(Json(value), {})).get<double>(), value);
  EXPECT_EQ(write_json(Json(std::numeric_limits<std::uint64_t>::max()), {}), "18446744073709551615");
}

TEST(JsonNumbers, AreShortenedWithoutLosingDigitsBeforeThePoint) {
  EXPECT_EQ(write_json(Json(0.123456789), {false, 3}), "0.123");
  EXPECT_EQ(write_json(Json(987654.4), {false, 3}), "987654");
  EXPECT_EQ(write_json(Json{1.5, 2, "a"}, {false, 3}), "[1.5,2,\"a\"]");
}

TEST(Json, HasADiagnosisAPhaseAndAForecastOnlyWhereThereIsOne) {
  Report report = testing::sample_report(12);
  EXPECT_EQ(to_json(report).find("\"cause\""), std::string::npos);
  EXPECT_EQ(to_json(report).find("\"holds\""), std::string::npos);
  EXPECT_EQ(to_json(report).find("\"forecasts\""), std::string::npos);
  report.results = {testing::diagnosed_result(12)};
  const Json result = parsed(report)["results"][0];
  const Json& decision = result["decisions"][0];
  EXPECT_EQ(decision["cause"], "queue");
  EXPECT_EQ(decision["phase"], "guardrails");
  EXPECT_EQ(decision["next_phase_target"], 4);
  EXPECT_EQ(decision["forecast_requests_per_s"], 4.5);
  const Json& hold = result["holds"][0];
  EXPECT_EQ(hold["at_s"], 30);
  EXPECT_EQ(hold["cause"], "none");
  EXPECT_EQ(hold["reason"], "slo_met");
  EXPECT_FALSE(hold.contains("next_phase_target"));
  const Json& forecasts = result["forecasts"];
  EXPECT_EQ(forecasts["at_s"].size(), 12U);
  EXPECT_TRUE(forecasts["expected_requests_per_s"][0].is_null());
  EXPECT_EQ(forecasts["expected_requests_per_s"][5], report.results[0].forecasts[5].expected.requests_per_s.value());
  EXPECT_EQ(forecasts["capacity_by_pool"][0], Json{1.25});
  EXPECT_EQ(forecasts["estimated_ttft_ms"][1], 600.0);
  EXPECT_FALSE(forecasts.contains("expected_output_tokens"));
}

TEST(Document, CutsWordsOfADiagnosisAndThinsForecastsOnRequest) {
  Report report = testing::sample_report(1);
  report.results = {testing::diagnosed_result(120)};
  report.results[0].decisions[0].diagnosis = "one two three four";
  const Json json = make_document(report, {10, 3, false, 9});
  const Json& result = json["results"][0];
  EXPECT_EQ(result["decisions"][0]["diagnosis"], "one two …");
  EXPECT_LE(result["holds"].size(), 3U);
  EXPECT_LE(result["forecasts"]["at_s"].size(), 10U);
  EXPECT_EQ(result["forecasts"]["at_s"].size(), result["forecasts"]["capacity_by_pool"].size());
}

TEST(Document, IsThinnedAndCutOnRequest) {
  const Report report = testing::sample_report(120);
  const Json json = make_document(report, {10, 3, false});
  const Json& best = json["results"][0];
  EXPECT_EQ(best["series"]["at_s"].size(), 10U);
  EXPECT_EQ(best["decisions"].size(), 3U);
  EXPECT_EQ(best["decisions_total"], 12);
  EXPECT_FALSE(best.contains("simulated_requests_per_s"));
}

}  // namespace
}  // namespace penstock::report
