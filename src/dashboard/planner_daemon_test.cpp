#include "controller/planner_daemon.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

#include "dashboard/planner_daemon_testing.h"
#include "telemetry/exposition.h"

namespace penstock::dashboard {
namespace {

using namespace controller;

using Json = nlohmann::json;
using namespace std::chrono_literals;

TEST_F(PlannerDaemonTest, AReloadPutsBoundsSloAndAnotherPolicyInForce) {
  open();
  run_until_decided(2);
  DaemonOptions options = daemon->options();
  options.pools[0].min_replicas = 2;
  options.pools[0].max_replicas = 3;
  options.slo.target.ttft = 123ms;
  options.gateways.access.authorization = "Bearer next";
  auto made = std::make_unique<ScriptedPolicy>();
  ScriptedPolicy& next = *made;
  next.target = 9;
  const int before = policy.decided;
  daemon->reconfigure(std::move(options), std::move(made), true);
  EXPECT_EQ(next.decided, before);
  EXPECT_TRUE(run_until(loop, [&] { return next.decided > before; }));
  EXPECT_EQ(policy.decided, before);
  EXPECT_EQ(fleet.target, 3U) << "the new bound";
  EXPECT_EQ(daemon->options().slo.target.ttft, 123ms);
  EXPECT_EQ(daemon->options().gateways.access.authorization, "Bearer next");
}

TEST_F(PlannerDaemonTest, AStateThatDoesNotFitIsLeftAloneWithAMessage) {
  state_file = testing::TempDir() + "penstock-policy-odd.json";
  std::ofstream{state_file} << "{\"version\": " << decision::PolicyState::kVersion
                            << ", \"policy\": \"other\", \"pools\": [\"chat\"], \"saved_unix_ms\": 0, "
                               "\"at_ns\": 5, \"values\": \"\"}";
  open();
  run_until_decided();
  const auto lines = log.lines(logging::Event::kPolicyState);
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_NE(lines[0].find("ignored: policy state: is of policy other, not of scripted"), std::string::npos) << lines[0];
}

TEST_F(PlannerDaemonTest, AppliesThePolicysDecision) {
  policy.target = 3;
  open();
  run_until_decided();
  EXPECT_EQ(fleet.wants, (std::vector<std::uint32_t>{3}));
  ASSERT_EQ(logged.size(), 1U);
  EXPECT_EQ(logged[0].policy, "scripted");
  EXPECT_EQ(logged[0].pool, "chat");
  EXPECT_EQ(logged[0].current, 1U);
  EXPECT_EQ(logged[0].target, 3U);
  EXPECT_EQ(daemon->decisions().size(), 1U);
}

TEST_F(PlannerDaemonTest, NeverExceedsThePoolsMaximum) {
  policy.target = 100;
  open();
  run_until_decided();
  EXPECT_EQ(fleet.wants, (std::vector<std::uint32_t>{4}));
  policy.target = 0;
  run_until_decided(2);
  EXPECT_EQ(fleet.wants.back(), 1U);
}

// Only a fleet with a target notices others that scale it.
TEST_F(PlannerDaemonTest, TheFleetGetsATargetThatItHasAtFirstAndAfterAChangeByAnotherClient) {
  open();
  run_until_decided(3);
  EXPECT_EQ(fleet.wants, (std::vector<std::uint32_t>{1}));
  fleet.target = policy.target = 2;
  run_until_decided(3);
  EXPECT_EQ(fleet.wants, (std::vector<std::uint32_t>{1, 2}));
}

TEST_F(PlannerDaemonTest, ObserveOnlyChangesNothing) {
  policy.target = 3;
  open(true);
  run_until_decided();
  EXPECT_TRUE(fleet.wants.empty());
  ASSERT_FALSE(logged.empty());
  EXPECT_EQ(logged[0].target, 3U) << "it says what it would do";
}

TEST_F(PlannerDaemonTest, WithoutAGatewayNothingIsDecidedAndTheStateIsUnknown) {
  fleet.views = {view(sample())};
  fleet.views[0].seen.sample->sampled_at = loop.now();
  fleet.may_act = false;
  policy.cause = decision::Cause::kNone;
  open(true);
  const auto is = [&](signals::DataState wanted) { return run_until(loop, [&] { return daemon->data() == wanted; }); };
  EXPECT_TRUE(is(signals::DataState::kKnown));
  run_until_decided();
  EXPECT_NE(daemon->metrics_text().find("penstock_target_replicas{pool=\"chat\"} 1\n"), std::string::npos);
  EXPECT_NE(daemon->metrics_text().find("penstock_gateway_up 1\n"), std::string::npos);
  EXPECT_EQ(state()["diagnosis"]["cause"], "none");

  gateway.status = 500;
  EXPECT_TRUE(is(signals::DataState::kNoGateway));
  const int decided = policy.decided;
  EXPECT_TRUE(run_until(loop, [&, from = loop.now()] { return loop.now() > from + 300ms; }));
  EXPECT_EQ(policy.decided, decided) << "the policy would see no traffic";
  const std::string text = daemon->metrics_text();
  for (const char* absent : {"penstock_target_replicas{", "dynamo_planner_predicted_num_decode_replicas ",
                             "dynamo_planner_num_decode_replicas ", "penstock_replicas{",
                             "dynamo_planner_observed_requests_per_second ", "penstock_slo_attainment_ratio "})
    EXPECT_EQ(text.find(absent), std::string::npos) << absent;
  for (const char* present : {"penstock_gateway_up 0\n", "penstock_data_state{state=\"no_gateway\"} 1\n",
                              "penstock_diagnosis{pool=\"chat\",cause=\"unknown\"} 1\n",
                              "penstock_diagnosis{pool=\"chat\",cause=\"none\"} 0\n"})
    EXPECT_NE(text.find(present), std::string::npos) << present << text;
  const Json blind = state();
  EXPECT_EQ(blind["data"]["state"], "no_gateway");
  EXPECT_EQ(blind["diagnosis"]["cause"], "unknown");
  EXPECT_TRUE(blind["pools"][0]["target"].is_null());
  EXPECT_TRUE(blind["pools"][0]["ready"].is_null());
  EXPECT_EQ(blind["pools"][0]["replicas"][0]["stage"], "unknown");
  EXPECT_EQ(blind["decisions"][0]["reason"], "no_data");
  EXPECT_EQ(blind["decisions"][0]["cause"], "unknown");
  EXPECT_NE(blind["events"][0]["text"].get<std::string>().find("the gateway does not answer"), std::string::npos);
  EXPECT_TRUE(run_until(loop, [&, from = loop.now()] { return daemon->points().back().at > from; }));
  EXPECT_TRUE(points().back()["arrivals_per_s"].is_null());
  EXPECT_TRUE(points().back()["ready"][0].is_null());
  EXPECT_EQ(log.count(logging::Event::kDataUnknown), 1U);

  gateway.status = 200;
  EXPECT_TRUE(is(signals::DataState::kKnown));
  EXPECT_GT(policy.decided, decided) << "it decides at once";
  EXPECT_EQ(log.count(logging::Event::kDataKnown), 2U);
  EXPECT_EQ(state()["events"][0]["text"], "the planner has the data that it needs");
  EXPECT_NE(daemon->metrics_text().find("penstock_target_replicas{pool=\"chat\"} 1\n"), std::string::npos);
}

TEST_F(PlannerDaemonTest, APlannerThatNeverReachedItsGatewayExportsNoTarget) {
  gateway.status = 404;
  fleet.may_act = false;
  open(true);
  EXPECT_TRUE(run_until(loop, [&] { return daemon->last_decision().has_value(); }));
  EXPECT_EQ(policy.decided, 0);
  EXPECT_EQ(daemon->metrics_text().find("penstock_target_replicas{"), std::string::npos);
  ASSERT_EQ(logged.size(), 1U);
  EXPECT_EQ(logged[0].reason, decision::Reason::kNoData);
  EXPECT_EQ(logged[0].current, logged[0].target);
  EXPECT_NE(logged[0].diagnosis.find("status 404"), std::string::npos) << logged[0].diagnosis;
}

TEST_F(PlannerDaemonTest, WithoutReplicasOrTelemetryTheStateIsUnknown) {
  fleet.may_act = false;
  policy.cause = decision::Cause::kNone;
  open(true);
  EXPECT_TRUE(run_until(loop, [&] { return daemon->last_decision().has_value(); }));
  EXPECT_EQ(daemon->data(), signals::DataState::kNoReplicas);
  EXPECT_EQ(policy.decided, 0);
  fleet.views = {view(std::nullopt)};
  fleet.views[0].seen.state_since = loop.now() - 10s;
  run_until_decided(2);
  EXPECT_EQ(daemon->data(), signals::DataState::kNoTelemetry);
  EXPECT_EQ(daemon->last_decision()->cause, decision::Cause::kUnknown);
  const std::string text = daemon->metrics_text();
  EXPECT_EQ(text.find("penstock_target_replicas{"), std::string::npos);
  EXPECT_NE(text.find("penstock_engine_up{pool=\"chat\",worker_id=\"1\"} 0\n"), std::string::npos) << text;
}

TEST_F(PlannerDaemonTest, AHoldIsLoggedOnceForEachReason) {
  open();
  run_until_decided(3);
  EXPECT_EQ(logged.size(), 1U);
  policy.reason = decision::Reason::kNoData;
  run_until_decided(3);
  EXPECT_EQ(logged.size(), 2U);
  EXPECT_EQ(state()["diagnosis"]["settings"].size(), 0U);
  policy.cause = decision::Cause::kKvPressure;
  run_until_decided(3);
  ASSERT_EQ(logged.size(), 3U);
  EXPECT_EQ(logged[2].cause, decision::Cause::kKvPressure);
  EXPECT_EQ(state()["diagnosis"]["text"], "words on kv_pressure");
  EXPECT_EQ(state()["diagnosis"]["settings"][0]["rule"], "kv_reserve");
  EXPECT_EQ(state()["diagnosis"]["settings"][0]["vllm"], "--max-num-seqs");
  policy.reason = decision::Reason::kSloMet;
  run_until_decided(3);
  EXPECT_EQ(daemon->decisions().size(), 3U) << "the oldest go";
  ASSERT_EQ(log.count(logging::Event::kDecision), 4U);
  EXPECT_EQ(log.lines(logging::Event::kDecision)[2],
            "decision policy=scripted mode=act pool=chat current=1 target=1 reason=no_data cause=kv_pressure");
  EXPECT_EQ(state()["decisions"][0]["reason"], decision::to_string(decision::Reason::kSloMet))
      << "the newest come first";
}

TEST_F(PlannerDaemonTest, ReportsHowRequestsEndedDuringScaling) {
  fleet.target = policy.target = 2;  // and one is ready
  fleet.views = {view(sample())};
  gateway.traffic =
      R"({"boot":"b","now_s":5,"next":17,"lost":0,"events":[["arrival",1,4.5,"m","interactive","shop",900,[]]]})";
  open();
  EXPECT_TRUE(run_until(loop, [&] { return daemon->scaling().events().size() == 1; }));
  gateway.traffic = R"({"boot":"b","now_s":6,"next":18,"lost":0,"events":[["end",1,5.5,"failed","r1",900,12,20.0]]})";
  EXPECT_TRUE(run_until(loop, [&] { return daemon->scaling().events()[0].ends.truncated > 0; }));
  const Json told = state()["scaling"][0];
  EXPECT_EQ(told["pool"], "chat");
  EXPECT_EQ(told["to"], 2);
  EXPECT_TRUE(told["settled_s"].is_null());
  EXPECT_GE(told["truncated"], 1);
  EXPECT_EQ(told["failed"], 0);
  run_until_decided();
  EXPECT_NE(daemon->metrics_text().find("penstock_scaling_events_total{pool=\"chat\"} 1\n"), std::string::npos);
  EXPECT_NE(daemon->metrics_text().find("penstock_scaling_requests_total{pool=\"chat\",outcome=\"truncated\"}"),
            std::string::npos);
}

TEST_F(PlannerDaemonTest, ReadsTrafficFromWhereItStopped) {
  gateway.traffic =
      R"({"boot":"b","now_s":5,"next":17,"lost":0,"events":[["arrival",1,4.5,"m","interactive","shop",900,[1,2]]]})";
  open();
  EXPECT_TRUE(run_until(loop, [&] { return gateway.asked.size() >= 8; }));
  std::vector<std::string> of_traffic;
  for (const std::string& target : gateway.asked)
    if (target.starts_with("/penstock/v1/traffic")) of_traffic.push_back(target);
  ASSERT_GE(of_traffic.size(), 2U);
  EXPECT_EQ(of_traffic[0], "/penstock/v1/traffic?after=0");
  EXPECT_EQ(of_traffic[1], "/penstock/v1/traffic?after=17");
  run_until_decided();
  EXPECT_GE(policy.recent, 1U);
  EXPECT_EQ(fleet.prompts.front(), 900U) << "new replicas warm up with prompts like these";
  EXPECT_EQ(fleet.received.front(), "b");
  EXPECT_EQ(policy.seen.pools[0].unrouted_requests, 3U);
  EXPECT_EQ(policy.seen.pools[0].detail->oldest_unrouted_age, core::Duration{500ms});
}

// Each gateway answers a page with one arrival after event 0, and an empty one after it.
TEST_F(PlannerDaemonTest, TwoGatewaysThatAlternateAreReportedAndTheirEventsCountOnce) {
  const auto answer_as = [&](const std::string& name) {
    gateway.overview = R"({"boot":")" + name + R"(","now_s":5,"replicas":[],"queue":{"models":[]},"refused_total":0})";
    gateway.answer_traffic = [name](std::string_view target) {
      const bool is_first = target.ends_with("?after=0");
      return R"({"boot":")" + name + R"(","now_s":5,"next":17,"lost":0,"events":[)" +
             (is_first ? R"(["arrival",1,4.5,"m","interactive","shop",900,[1,2]])" : "") + "]}";
    };
  };
  answer_as("a");
  open();
  for (int turn = 0; turn < 6; ++turn) {
    answer_as(turn % 2 == 0 ? "a" : "b");
    EXPECT_TRUE(run_until(loop, [&, seen = gateway.asked.size()] { return gateway.asked.size() >= seen + 8; }));
  }
  run_until_decided(2);
  EXPECT_EQ(policy.recent, 2U);
  EXPECT_EQ(log.count(logging::Event::kSeveralGateways), 1U);
  EXPECT_EQ(daemon->gateways().state()->boot, "b");
}

TEST_F(PlannerDaemonTest, AGatewayThatRestartsIsReadFromItsStart) {
  gateway.overview.replace(gateway.overview.find(R"("b")"), 3, R"("c")");
  gateway.traffic = R"({"boot":"c","now_s":5,"next":17,"lost":0,"events":[]})";
  open();
  EXPECT_TRUE(run_until(loop, [&] { return gateway.asked.size() >= 6; }));
  gateway.overview = ScriptedGateway{loop}.overview;
  gateway.traffic =
      R"({"boot":"b","now_s":5,"next":3,"lost":0,"events":[["arrival",1,4.5,"m","interactive","shop",900,[1,2]]]})";
  run_until_decided(4);
  const auto asked_for = [&](const char* target) {
    return std::count(gateway.asked.begin(), gateway.asked.end(), target);
  };
  EXPECT_LE(asked_for("/penstock/v1/traffic?after=0"), 2);
  EXPECT_GE(asked_for("/penstock/v1/traffic?after=3"), 1);
  EXPECT_EQ(log.count(logging::Event::kSeveralGateways), 0U);
}

TEST_F(PlannerDaemonTest, TellsTheFleetOfHotPrefixes) {
  gateway.prefixes =
      R"({"prefixes":[{"model":"m","path":"/v1/completions","tokens":512,"hits":7,"idle_s":1.5,"body":"{}"}]})";
  open();
  EXPECT_TRUE(run_until(loop, [&] { return !fleet.prefixes.empty(); }));
  EXPECT_EQ(fleet.prefixes.at(0).hits, 7U);
}

TEST_F(PlannerDaemonTest, ReadsNoHotPrefixesWithoutAFleetToStart) {
  fleet.may_act = false;
  open();
  EXPECT_TRUE(run_until(loop, [&] { return gateway.asked.size() >= 8; }));
  EXPECT_EQ(std::count(gateway.asked.begin(), gateway.asked.end(), "/penstock/v1/prefixes"), 0);
}

TEST_F(PlannerDaemonTest, RequestsThatWaitForItsModelAreItsOwn) {
  open(false, "m");
  EXPECT_TRUE(run_until(loop, [&] { return daemon->gateways().state().has_value(); }));
  run_until_decided(2);
  EXPECT_EQ(policy.seen.pools[0].unrouted_requests, 1U);
  EXPECT_EQ(policy.seen.pools[0].detail->oldest_unrouted_age, core::Duration{250ms});
}

TEST_F(PlannerDaemonTest, RequestsThatWaitForAnotherModelAreNot) {
  open(false, "another");
  EXPECT_TRUE(run_until(loop, [&] { return daemon->gateways().state().has_value(); }));
  run_until_decided(2);
  EXPECT_EQ(policy.seen.pools[0].unrouted_requests, 0U);
  EXPECT_EQ(policy.seen.pools[0].detail->oldest_unrouted_age, core::Duration{});
}

TEST_F(PlannerDaemonTest, InvalidDocumentsOfAGatewayAreIgnoredAndLoggedOnce) {
  gateway.overview = "{}";
  gateway.traffic = "nonsense";
  open();
  EXPECT_TRUE(run_until(loop, [&] { return daemon->last_decision().has_value(); }));
  EXPECT_FALSE(daemon->gateways().state());
  EXPECT_TRUE(fleet.received.empty());
  EXPECT_EQ(log.count(logging::Event::kGatewayUnreachable), 1U) << "a failure is logged once";
  gateway.status = 503;
  EXPECT_TRUE(run_until(loop, [&, seen = gateway.asked.size()] { return gateway.asked.size() > seen + 3; }));
  EXPECT_TRUE(state()["gateway"].is_null());
  gateway.status = 200;
  gateway.overview = ScriptedGateway{loop}.overview;
  gateway.traffic = ScriptedGateway{loop}.traffic;
  EXPECT_TRUE(run_until(loop, [&] { return !state()["gateway"].is_null(); }));
  EXPECT_EQ(state()["gateway"]["boot"], "b");
  EXPECT_EQ(log.count(logging::Event::kGatewayUnreachable), 1U);
  EXPECT_EQ(log.count(logging::Event::kGatewayReachable), 1U);
}

TEST_F(PlannerDaemonTest, LimitsTheNumberOfPoints) {
  open();
  EXPECT_TRUE(run_until(loop, [&, times = 0, last = core::Instant{}]() mutable {
    if (!daemon->points().empty() && daemon->points().back().at != last) {
      ++times;
      last = daemon->points().back().at;
    }
    return times >= 8;
  }));
  EXPECT_EQ(daemon->points().size(), 5U);
  EXPECT_EQ(points().size(), 5U);
  EXPECT_EQ(Json::parse(last_point_document(*daemon)), points().back());
}

TEST_F(PlannerDaemonTest, TheMetricsAreThoseOfThePlanner) {
  open();
  EXPECT_EQ(daemon->metrics_text(), "");
  run_until_decided();
  const std::string text = daemon->metrics_text();
  EXPECT_TRUE(telemetry::parse_exposition(text, "metrics"));
  EXPECT_NE(text.find("chat"), std::string::npos);
  // One tick at the least: the one that has decided.
  const report::TickTimes& times = daemon->tick_times();
  ASSERT_GT(times.wall_s.count(), 0U);
  EXPECT_EQ(times.cpu_s.count(), times.wall_s.count());
  EXPECT_GT(times.cpu_s.sum, 0.0);
  EXPECT_LE(times.cpu_s.sum, times.wall_s.sum + 0.001);
  EXPECT_NE(text.find("\npenstock_plan_tick_seconds_count " + std::to_string(times.wall_s.count()) + "\n"),
            std::string::npos);
}

TEST_F(PlannerDaemonTest, TokenMetricsCoverReportingEngines) {
  fleet.views = {view(sample()), view(std::nullopt)};
  fleet.views[1].seen.replica = 99;
  fleet.views[0].name = "chat-\"1\"";
  open();
  EXPECT_TRUE(daemon->token_figures().empty());
  telemetry::TokenFigures figures;
  figures.model = "m";
  figures.tokens_in = 12;
  fleet.tokens[fleet.views[0].seen.replica] = figures;
  std::string text;
  telemetry::ExpositionWriter writer{text};
  telemetry::append_token_metrics(writer, daemon->token_figures());
  EXPECT_TRUE(telemetry::parse_exposition(text, "metrics"));
  EXPECT_NE(text.find(R"(tokens_in_total{model_name="m",pool="chat",replica="chat-\"1\""} 12)"), std::string::npos)
      << text;
  EXPECT_EQ(text.find("kv_cache_bytes"), std::string::npos) << "the bytes of a token are unknown";
  // The name in the gateway comes before what the engine exposes.
  fleet.views[0].model = "served";
  EXPECT_EQ(daemon->token_figures().at(0).model, "served");
}

// ---- the documents --------------------------------------------------------------------------------------------------

TEST_F(PlannerDaemonTest, BeforeAnythingIsKnownTheStateSaysSo) {
  fleet.views = {view(std::nullopt)};
  open(true);
  const Json seen = state();
  EXPECT_EQ(seen["version"], "1.2.3");
  EXPECT_EQ(seen["mode"], "observe");
  EXPECT_EQ(seen["policy"], "scripted");
  EXPECT_TRUE(seen["gateway"].is_null());
  EXPECT_TRUE(seen["diagnosis"].is_null());
  EXPECT_EQ(seen["segments"], Json::array());
  EXPECT_EQ(seen["decisions"], Json::array());
  EXPECT_EQ(seen["slo"]["judged"], 0);
  ASSERT_EQ(seen["pools"].size(), 1U);
  EXPECT_EQ(seen["pools"][0]["name"], "chat");
  EXPECT_EQ(seen["pools"][0]["max"], 4);
  EXPECT_TRUE(seen["pools"][0]["replicas"][0]["sample"].is_null());
  EXPECT_EQ(last_point_document(*daemon), "null");
  EXPECT_EQ(points(), Json::array());
}

TEST_F(PlannerDaemonTest, UnreportedFiguresAreNullInAPoint) {
  fleet.views = {view(std::nullopt)};
  open();
  EXPECT_TRUE(run_until(loop, [&] { return !daemon->points().empty(); }));
  const Json point = points()[0];
  EXPECT_TRUE(point["kv_usage"].is_null());
  EXPECT_TRUE(point["hit_ratio"].is_null());
  EXPECT_TRUE(point["ttft"].is_null());
  EXPECT_TRUE(point["itl"].is_null());
  EXPECT_EQ(point["ready"], Json::parse("[1]"));
}

TEST_F(PlannerDaemonTest, ReportedFiguresAreInTheStateAndInAPoint) {
  fleet.views = {view(sample())};
  open();
  EXPECT_TRUE(run_until(loop, [&] { return !daemon->points().empty(); }));
  const Json point = points()[0];
  EXPECT_DOUBLE_EQ(point["kv_usage"], 0.25);
  EXPECT_DOUBLE_EQ(point["hit_ratio"], 0.4);
  EXPECT_EQ(point["queued"], 3);
  EXPECT_EQ(point["running"], 5);
  const Json sample = state()["pools"][0]["replicas"][0]["sample"];
  EXPECT_DOUBLE_EQ(sample["kv_usage"], 0.25);
  EXPECT_EQ(sample["queued"], 3);
}

TEST_F(PlannerDaemonTest, AnEngineWithoutACacheSizeHasNoKvUsage) {
  signals::EngineSample unknown = sample();
  unknown.kv_used_tokens.reset();
  unknown.kv_capacity_tokens.reset();
  fleet.views = {view(unknown)};
  open();
  const Json shown = state()["pools"][0]["replicas"][0]["sample"];
  for (const char* figure : {"kv_usage", "kv_capacity_tokens", "queued_prefill_tokens", "oldest_queued_s", "evictions",
                             "preemptions", "batch_merge_efficiency"})
    EXPECT_TRUE(shown[figure].is_null()) << figure;
  EXPECT_TRUE(points()[0]["kv_usage"].is_null());
}

TEST_F(PlannerDaemonTest, TheStateHasTheGpuCostOfTokensSinceTheStart) {
  fleet.views = {view(sample())};
  policy.evidence = {{"input_time_share", 0.25, "share"}};
  open();
  run_until_decided(4);
  const Json cost = state()["gpu_cost"]["all"];
  EXPECT_GT(cost["gpu_cost"], 0.0);
  EXPECT_DOUBLE_EQ(cost["gpu_cost"], state()["pools"][0]["cost"]);
}

TEST_F(PlannerDaemonTest, TextFromOutsideCannotBreakTheDocument) {
  fleet.told = {{core::kStart, true, "chat", "bytes \xff and \"quotes\""}};
  open();
  EXPECT_EQ(state()["events"][0]["warning"], true);
  EXPECT_NE(state()["events"][0]["text"].get<std::string>().find("\"quotes\""), std::string::npos);
}

}  // namespace
}  // namespace penstock::dashboard
