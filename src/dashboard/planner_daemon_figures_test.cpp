// Figures of the gateway and the fleet on their way to the page and to the metrics.
#include <gtest/gtest.h>

#include <chrono>

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

TEST_F(PlannerDaemonTest, PoolsThatExchangeNoReplicasHaveNoFiguresOfSwitches) {
  open();
  run_until_decided();
  EXPECT_EQ(daemon->metrics_text().find("\npenstock_role_switches_total"), std::string::npos);
  EXPECT_FALSE(state()["pools"][0].contains("switching"));
}

}  // namespace
}  // namespace penstock::dashboard
