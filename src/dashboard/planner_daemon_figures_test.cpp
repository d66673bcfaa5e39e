// Figures of the gateway and the fleet on their way to the page and to the metrics.
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "dashboard/planner_daemon_testing.h"

namespace penstock::dashboard {
namespace {

using namespace std::chrono_literals;

std::vector<signals::Pool> exchanging_pools() {
  std::vector<signals::Pool> pools(2);
  const signals::Role roles[] = {signals::Role::kPrefill, signals::Role::kDecode};
  for (std::size_t i = 0; i < 2; ++i) {
    pools[i].name = to_string(roles[i]);
    pools[i].role = roles[i];
    pools[i].start_up = 60s;
    pools[i].switch_time = 5s;
  }
  return pools;
}

TEST_F(PlannerDaemonTest, DeferredRequestsOfTheGatewayAreOnThePageAndInTheMetrics) {
  gateway.overview.insert(gateway.overview.find("\"refused_total\""),
                          R"("deferred":{"requests":12,"tokens":900,"next_due_s":41.5,"deferred_total":100,)"
                          R"("sent_spare_total":70,"sent_due_total":15,"missed_total":3},)");
  open();
  run_until_decided();
  const std::string text = daemon->metrics_text();
  for (const char* line :
       {"\npenstock_gateway_deferred_requests 12\n", "\npenstock_gateway_deferred_next_due_seconds 41.5\n",
        "\npenstock_gateway_deferrals_total{event=\"deferred\"} 100\n",
        "\npenstock_gateway_deferrals_total{event=\"sent_due\"} 15\n"})
    EXPECT_NE(text.find(line), std::string::npos) << line << text;
  EXPECT_EQ(state()["gateway"]["deferred"]["next_due_s"], 41.5);
}

TEST_F(PlannerDaemonTest, AGatewayWithoutDeferredRequestsHasNoSeriesOfThem) {
  open();
  run_until_decided();
  EXPECT_EQ(daemon->metrics_text().find("\npenstock_gateway_deferr"), std::string::npos);
}

TEST_F(PlannerDaemonTest, RoleSwitchesAreCountedByDirectionAndShownAtTheReplica) {
  fleet.views = {view(sample())};
  fleet.views[0].stage = "draining";
  fleet.views[0].switch_to = "decode";
  fleet.switching = 1;
  fleet.switched = 4;
  open(false, {}, exchanging_pools());
  run_until_decided();
  const std::string text = daemon->metrics_text();
  for (const char* line : {"\npenstock_role_switches_total{pool=\"decode\",from=\"prefill\"} 4\n",
                           "\npenstock_role_switches_total{pool=\"prefill\",from=\"decode\"} 0\n",
                           "\npenstock_replicas_switching{pool=\"decode\"} 1\n"})
    EXPECT_NE(text.find(line), std::string::npos) << line << text;
  const nlohmann::json shown = state();
  EXPECT_EQ(shown["pools"][1]["switching"], 1);
  EXPECT_EQ(shown["pools"][1]["role_switches"], 4);
  EXPECT_EQ(shown["pools"][0]["replicas"][0]["switch_to"], "decode");
  fleet.views[0].switch_to.clear();
  EXPECT_TRUE(state()["pools"][0]["replicas"][0]["switch_to"].is_null());
}

TEST_F(PlannerDaemonTest, AttainmentAndDurationAreThoseOfTheRequests) {
  gateway.traffic =
      R"({"boot":"b","now_s":9,"next":17,"lost":0,"events":[["arrival",1,9.0,"m","interactive","shop",900,[]],)"
      R"(["arrival",2,9.0,"m","interactive","shop",900,[]],["first_token",1,9.0,0.0,1000.0,0],)"
      R"(["first_token",2,9.0,0.0,4000.0,0],["end",1,9.0,"completed","r1",900,12,20.0],)"
      R"(["end",2,9.0,"completed","r1",900,12,20.0]]})";
  open();
  EXPECT_TRUE(controller::run_until(loop, [&] { return daemon->traffic().judged() > 0; }));
  run_until_decided();
  const std::string text = daemon->metrics_text();
  for (const char* line : {"\npenstock_slo_attainment_ratio 0.5\n", "\npenstock_ttft_attainment_ratio 0.5\n",
                           "\npenstock_itl_attainment_ratio 1\n", "\npenstock_build_info{version=\"1.2.3\"} 1\n",
                           "\ndynamo_planner_observed_request_duration_seconds "})
    EXPECT_NE(text.find(line), std::string::npos) << line << text;
  EXPECT_EQ(state()["slo"]["ttft_attainment"], 0.5);
  EXPECT_EQ(state()["slo"]["itl_attainment"], 1.0);
}

TEST_F(PlannerDaemonTest, TheOutputOfADisaggregatedFleetIsThatOfItsDecodePool) {
  gateway.traffic =
      R"({"boot":"b","now_s":9,"next":17,"lost":0,"events":[["arrival",1,9.0,"m","interactive","shop",900,[]],)"
      R"(["first_token",1,9.0,0.0,1000.0,0],["end",1,9.0,"completed","r1",900,12,20.0]]})";
  open(false, {}, exchanging_pools());
  EXPECT_TRUE(controller::run_until(
      loop, [&] { return !daemon->points().empty() && daemon->points().back().output_tokens_per_s > 0.0; }));
  const nlohmann::json point = points().back();
  EXPECT_DOUBLE_EQ(point["output_tokens_per_s"].get<double>() / point["arrivals_per_s"].get<double>(), 12.0);
}

TEST_F(PlannerDaemonTest, TheBatchEfficiencyOfAnEngineThatReportsNoneNeedsTheSequencesThatItRuns) {
  fleet.views = {view(sample())};
  telemetry::TokenFigures figures;
  figures.active_sequences = 5;
  telemetry::TokenFigures& reported = fleet.tokens[1] = figures;
  const auto efficiency = [&] { return daemon->token_figures().at(0).batch_merge_efficiency; };
  const auto shown = [&] { return state()["pools"][0]["replicas"][0]["sample"]["batch_merge_efficiency"]; };
  open();
  run_until_decided();
  EXPECT_FALSE(efficiency());
  EXPECT_TRUE(shown().is_null());

  max_sequences = 50;
  kv_bytes_per_token = 1024.0;
  open();
  run_until_decided();
  EXPECT_EQ(efficiency(), 0.1);
  EXPECT_EQ(shown(), 0.1);
  EXPECT_EQ(daemon->token_figures().at(0).kv_bytes_used, 1024.0);
  policy.evidence = {{"learned_max_sequences", 20.0, "requests"}};
  run_until_decided(2);
  EXPECT_EQ(efficiency(), 0.25) << "what was seen comes first";
  reported.workers = 5;
  EXPECT_EQ(efficiency(), 0.05) << "of all workers behind the address";
  reported.batch_merge_efficiency = 0.75;
  EXPECT_EQ(efficiency(), 0.75) << "what the engine reports";
}

TEST_F(PlannerDaemonTest, HealthyLatencyOnBusyGpusAdvisesMoreQueueDelay) {
  gateway.traffic =
      R"({"boot":"b","now_s":9,"next":17,"lost":0,"events":[["arrival",1,9.0,"m","interactive","shop",900,[]],)"
      R"(["first_token",1,9.0,0.0,1000.0,0],["end",1,9.0,"completed","r1",900,12,20.0]]})";
  fleet.views = {view(sample())};
  fleet.views[0].seen.sample->sampled_at = loop.now();
  policy.cause = decision::Cause::kNone;
  open();
  EXPECT_TRUE(controller::run_until(loop, [&] { return daemon->traffic().judged() > 0; }));
  run_until_decided();
  EXPECT_TRUE(state()["diagnosis"]["settings"].empty()) << "the utilisation is unknown";
  fleet.views[0].seen.sample->gpu_utilisation = 0.9;
  run_until_decided(2);
  const nlohmann::json settings = state()["diagnosis"]["settings"];
  ASSERT_EQ(settings.size(), 1U);
  EXPECT_EQ(settings[0]["rule"], "queue_delay");
  EXPECT_EQ(settings[0]["pool"], "chat");
  EXPECT_NE(settings[0]["evidence"].get<std::string>().find("at 90 % utilisation"), std::string::npos);
}

TEST_F(PlannerDaemonTest, PoolsThatExchangeNoReplicasHaveNoFiguresOfSwitches) {
  open();
  run_until_decided();
  EXPECT_EQ(daemon->metrics_text().find("\npenstock_role_switches_total"), std::string::npos);
  EXPECT_FALSE(state()["pools"][0].contains("switching"));
}

}  // namespace
}  // namespace penstock::dashboard
