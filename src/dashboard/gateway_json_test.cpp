#include "dashboard/gateway_json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "controller/gateway_sum.h"

namespace penstock::dashboard {
namespace {

using Json = nlohmann::ordered_json;

// An overview as gateways write it, with a number that differs between gateways.
std::string overview_with(const std::string& boot, int open) {
  const Json overview{
      {"boot", boot},
      {"now_s", 100 * open},
      {"replicas",
       {{{"id", "r1"},
         {"url", "http://r1"},
         {"model", "m"},
         {"models", {"m"}},
         {"pool", "default"},
         {"role", "aggregated"},
         {"phase", open == 1 ? "draining" : "serving"},
         {"workers", 2},
         {"healthy", true},
         {"breaker_open", open == 1},
         {"eligible", open != 1},
         {"open_requests", open},
         {"kv_usage", open == 1 ? Json(nullptr) : Json(0.5)},
         {"requests_total", 10 * open}}}},
      {"problems", {{{"replica", "r" + boot}, {"url", "http://x"}, {"code", "no_health"}, {"text", "t"}}}},
      {"models_complete", open == 1},
      {"tenants",
       {{{"name", "shop"}, {"budget_available", nullptr}, {"running", open}, {"waiting", 0}},
        {{"name", "lab"}, {"budget_available", 600.0 / open}, {"running", 0}, {"waiting", 0}}}},
      {"usage", {{{"tenant", "shop"}, {"model", "m"}, {"completed", open}, {"cost", 0.5}}}},
      {"latencies", {{{"model", "m"}, {"ttft", {{"count", 3}, {"p50_ms", 9.0}}}}}},
      {"queue",
       {{"interactive", open}, {"oldest_s", open == 1 ? Json(nullptr) : Json(2.5)}, {"models", Json::array()}}},
      {"deferred", {{"requests", open}, {"next_due_s", 10 * open}, {"deferred_total", 7}}},
      {"refused_total", 1},
      {"refusals", {{"queue_full", open}}}};
  return overview.dump();
}

class GatewayJsonTest : public testing::Test {
 protected:
  GatewayJsonTest() : one(*controller::read_overview(one_text())), other(*controller::read_overview(other_text())) {}
  static std::string one_text() { return with_feed(overview_with("a", 1)); }
  static std::string other_text() { return with_feed(overview_with("b", 2)); }
  // What the planner itself reads of `deferred`.
  static std::string with_feed(const std::string& text) {
    Json made = Json::parse(text);
    for (const char* total : {"sent_spare_total", "sent_due_total", "missed_total"}) made["deferred"][total] = 0;
    return made.dump();
  }

  controller::GatewayState one, other;
};

TEST_F(GatewayJsonTest, OneGatewayIsShownAsItIs) {
  EXPECT_EQ(gateway_json({&one.json}, one, core::kStart).dump(), one.json);
}

TEST_F(GatewayJsonTest, SeveralGatewaysAreShownInTheShapeOfOne) {
  const controller::GatewayState sum = sum_of(std::vector<const controller::GatewayState*>{&one, &other});
  const Json seen = gateway_json({&one.json, &other.json}, sum, core::kStart + std::chrono::seconds{42});
  EXPECT_EQ(seen["boot"], "a+b");
  EXPECT_EQ(seen["now_s"], 42.0);
  ASSERT_EQ(seen["replicas"].size(), 1U);
  const Json& replica = seen["replicas"][0];
  EXPECT_EQ(replica["open_requests"], 3);
  EXPECT_EQ(replica["requests_total"], 30);
  EXPECT_EQ(replica["phase"], "serving");
  EXPECT_EQ(replica["eligible"], true);
  EXPECT_EQ(replica["breaker_open"], false) << "one of them uses it";
  EXPECT_EQ(replica["workers"], 2);
  EXPECT_EQ(replica["kv_usage"], 0.5);
  EXPECT_EQ(replica["models"], Json{"m"});
  EXPECT_EQ(seen["problems"].size(), 2U);
  EXPECT_EQ(seen["models_complete"], false);
  EXPECT_EQ(seen["tenants"][0].dump(), R"({"name":"shop","budget_available":null,"running":3,"waiting":0})");
  EXPECT_EQ(seen["tenants"][1]["budget_available"], 300.0) << "gateways share the budgets of tenants";
  EXPECT_EQ(seen["usage"].dump(), R"([{"tenant":"shop","model":"m","completed":3,"cost":1.0}])");
  EXPECT_EQ(seen["latencies"], Json::array());
  EXPECT_EQ(seen["queue"]["interactive"], 3);
  EXPECT_EQ(seen["queue"]["oldest_s"], 2.5);
  EXPECT_EQ(seen["deferred"]["requests"], 3);
  EXPECT_EQ(seen["deferred"]["next_due_s"], 10);
  EXPECT_EQ(seen["refused_total"], 2);
  EXPECT_EQ(seen["refusals"]["queue_full"], 3);
}

}  // namespace
}  // namespace penstock::dashboard
