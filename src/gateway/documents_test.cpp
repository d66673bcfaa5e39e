#include "gateway/documents.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "dispatch/dispatcher_testing.h"
#include "gateway/gateway_testing.h"
#include "telemetry/exposition.h"
#include "telemetry/exposition_check_testing.h"

namespace penstock::gateway {
namespace {

using dispatch::testing::info_of;

using Json = nlohmann::json;
using namespace std::chrono_literals;
constexpr core::Instant kNow = core::kStart + 100s;

// A dispatcher with names that need escaping, that has seen each kind of end.
class Documents : public ::testing::Test {
 protected:
  void work() {
    ReplicaEndpoint draining = replica_named("r2");
    draining.phase = dispatch::ReplicaPhase::kDraining;
    dispatcher.set_replicas({replica_named("r1"), draining}, kNow);
    run(0, ledger::Outcome::kCompleted);
    run(1, ledger::Outcome::kFailed);
    dispatch::RequestInfo nowhere = info_of(400);
    nowhere.model = "none";
    EXPECT_TRUE(dispatcher.arrive(nowhere, listener, kNow).refusal);
    routing::ReportedLoad reported;
    reported.at = kNow + 3s;
    reported.kv_usage = 0.5;
    dispatcher.report_load("r1", reported);
  }
  void run(std::uint32_t tenant, ledger::Outcome outcome) {
    const std::vector<std::uint64_t> keys{1, (std::uint64_t{1} << 63) - 1};
    dispatch::RequestInfo info = info_of(4000, tenant);
    info.keys = keys;
    info.received_at = kNow;
    const RoutedArrival answer = dispatcher.arrive(info, listener, kNow);
    ASSERT_TRUE(answer.grant);
    dispatcher.answered(answer.ticket, kNow + 1s);
    dispatch::RequestOutcome ending;
    ending.outcome = outcome;
    ending.usage = dispatch::TokenUsage{1000, 11, 400};
    ending.last_token_at = kNow + 2s;
    dispatcher.ended(answer.ticket, ending, kNow + 2s);
  }
  [[nodiscard]] Json overview(core::Instant now = kNow + 3s) const {
    return Json::parse(overview_document(dispatcher.overview(now), "boot-1"));
  }

  GatewayOptions options = [] {
    GatewayOptions made;
    made.dispatch = dispatch::testing::options_for_tests();
    made.dispatch.tenants.resize(2);
    made.dispatch.tenants[1].name = "say \"hi\"\\\n";
    made.dispatch.tenants[1].budget = {60'000.0, 0.0};
    return made;
  }();
  dispatch::testing::TestListener listener;
  SharedDispatcher dispatcher{options, nullptr};
};

std::vector<std::string> faults_of(const std::string& text) {
  const auto parsed = telemetry::parse_exposition(text, "metrics");
  if (!parsed) return {parsed.error().message()};
  return telemetry::check_exposition(*parsed);
}

TEST_F(Documents, TheOverviewHasReplicasTenantsAndUsage) {
  work();
  const Json seen = overview();
  EXPECT_EQ(seen["boot"], "boot-1");
  EXPECT_DOUBLE_EQ(seen["now_s"], 103.0);
  ASSERT_EQ(seen["replicas"].size(), 2U);
  const Json& first = seen["replicas"][0];
  EXPECT_EQ(first["id"], "r1");
  EXPECT_EQ(first["role"], "aggregated");
  EXPECT_EQ(first["phase"], "serving");
  EXPECT_EQ(first["eligible"], true);
  EXPECT_EQ(first["open_requests"], 0);
  EXPECT_EQ(first["open_transfers"], 0);
  EXPECT_EQ(first["requests_total"], 2);
  EXPECT_DOUBLE_EQ(first["kv_usage"], 0.5);
  EXPECT_EQ(seen["replicas"][1]["phase"], "draining");
  EXPECT_EQ(seen["replicas"][1]["eligible"], false);
  EXPECT_EQ(seen["tenants"][1]["name"], "say \"hi\"\\\n");
  EXPECT_GT(seen["tenants"][1]["budget_available"], 0.0);
  EXPECT_EQ(seen["refused_total"], 1);
  EXPECT_EQ(seen["refusals"]["model_not_found"], 1);
  EXPECT_EQ(seen["granted_total"], 2);
  double cost = 0.0;
  for (const Json& row : seen["usage"]) cost += row["cost"].get<double>();
  EXPECT_GT(cost, 0.0);
  EXPECT_FALSE(seen["latencies"].empty());
}

TEST_F(Documents, UnknownFiguresAreNull) {
  dispatcher.set_replicas({replica_named("r1")}, kNow);
  const Json seen = overview();
  EXPECT_TRUE(seen["replicas"][0]["kv_usage"].is_null());
  EXPECT_TRUE(seen["tenants"][0]["budget_available"].is_null()) << "there is no limit";
  EXPECT_TRUE(seen["queue"]["oldest_s"].is_null());
  EXPECT_EQ(seen["latencies"], Json::array());
}

TEST_F(Documents, TheQueueHasItsAge) {
  ReplicaEndpoint warming = replica_named("r1");
  warming.phase = dispatch::ReplicaPhase::kWarming;
  dispatcher.set_replicas({warming}, kNow);
  dispatch::RequestInfo info = info_of(400);
  info.received_at = kNow;
  EXPECT_NE(dispatcher.arrive(info, listener, kNow).ticket, 0U);
  const Json queue = overview()["queue"];
  EXPECT_EQ(queue["interactive"], 1);
  EXPECT_EQ(queue["batch"], 0);
  EXPECT_GT(queue["tokens"], 0);
  EXPECT_DOUBLE_EQ(queue["oldest_s"], 3.0);
  ASSERT_EQ(queue["models"].size(), 1U);
  EXPECT_EQ(queue["models"][0]["model"], "m");
  EXPECT_EQ(queue["models"][0]["waiting_for_room"], 1);
  EXPECT_DOUBLE_EQ(queue["models"][0]["oldest_s"], 3.0);
}

TEST_F(Documents, TheTrafficIsRowsInTheirOrder) {
  work();
  const Json seen = Json::parse(traffic_document(dispatcher.traffic(0, 100), "boot-1", kNow + 3s));
  EXPECT_EQ(seen["boot"], "boot-1");
  EXPECT_EQ(seen["lost"], 0);
  EXPECT_EQ(seen["next"], 6);
  ASSERT_EQ(seen["events"].size(), 6U);
  const Json& arrival = seen["events"][0];
  EXPECT_EQ(arrival[0], "arrival");
  EXPECT_DOUBLE_EQ(arrival[2], 100.0);
  EXPECT_EQ(arrival[3], "m");
  EXPECT_EQ(arrival[4], "interactive");
  EXPECT_EQ(arrival[5], "anonymous");
  EXPECT_EQ(arrival[7], Json::parse("[1,9223372036854775807]"));
  EXPECT_EQ(arrival[8], "/v1/chat/completions");
  EXPECT_EQ(arrival[11], 256);  // Of answers of which nothing is known.
  const Json& first_token = seen["events"][1];
  EXPECT_EQ(first_token[0], "first_token");
  EXPECT_EQ(first_token[1], arrival[1]);
  EXPECT_DOUBLE_EQ(first_token[4], 1000.0);
  const Json& end = seen["events"][2];
  EXPECT_EQ(end[0], "end");
  EXPECT_EQ(end[3], "completed");
  EXPECT_EQ(end[4], "r1");
  EXPECT_EQ(end[5], 1000);
  EXPECT_EQ(end[6], 11);
  EXPECT_DOUBLE_EQ(end[7], 100.0);
  EXPECT_EQ(seen["events"][5][3], "failed");
}

TEST_F(Documents, TheMetricsAreWhatPrometheusReads) {
  EXPECT_TRUE(faults_of(metrics_text(dispatcher.overview(kNow), {}, {})).empty());
  work();
  WorkerTotals totals;
  totals.connections.open = 3;
  totals.refusals["invalid_api_key"] = 4;
  totals.refusals["model_not_found"] = 2;  // Of /v1/models/NAME.
  LatencyHistograms latencies;
  latencies.row("m", "interactive").add(Latency::kItl, 22ms, 9);
  latencies.add_to(totals.latencies);
  const std::string text = metrics_text(dispatcher.overview(kNow + 3s), totals, {});
  for (const std::string& fault : faults_of(text)) ADD_FAILURE() << fault;
  for (const char* line :
       {"penstock_connections 3\n", "penstock_granted_requests_total 2\n",
        "penstock_refusals_total{code=\"model_not_found\"} 3\n",
        "penstock_refusals_total{code=\"invalid_api_key\"} 4\n",
        "penstock_request_itl_seconds_bucket{model=\"m\",class=\"interactive\",le=\"0.02\"} 0\n",
        "penstock_request_itl_seconds_bucket{model=\"m\",class=\"interactive\",le=\"0.025\"} 9\n",
        "penstock_request_itl_seconds_count{model=\"m\",class=\"interactive\"} 9\n",
        "penstock_ttft_seconds_count{model=\"m\"} 2\n", "penstock_replica_eligible{replica=\"r2\",model=\"m\"} 0\n",
        "penstock_requests_total{tenant=\"anonymous\",model=\"m\",outcome=\"completed\"} 1\n",
        "penstock_tokens_total{tenant=\"anonymous\",model=\"m\",kind=\"cached\"} 400\n",
        "tenant=\"say \\\"hi\\\"\\\\\\n\""})
    EXPECT_NE(text.find(line), std::string::npos) << line << "\n" << text;
}

TEST(Metrics, OfLedgerAndLogsAreThereIfOneIsWritten) {
  Lifecycle lifecycle;
  EXPECT_EQ(metrics_text({}, {}, lifecycle).find("penstock_ledger"), std::string::npos);
  lifecycle.version = "1.2.3";
  lifecycle.ledger = [] { return LedgerHealth{false, 7, 3}; };
  lifecycle.lost_access_lines = [] { return std::uint64_t{9}; };
  const std::string text = metrics_text({}, {}, lifecycle);
  for (const std::string& fault : faults_of(text)) ADD_FAILURE() << fault;
  for (const char* line : {"\npenstock_build_info{version=\"1.2.3\"} 1\n", "\npenstock_ledger_writable 0\n",
                           "\npenstock_ledger_waiting_entries 7\n", "\npenstock_ledger_dropped_entries_total 3\n",
                           "\npenstock_log_lost_lines_total{log=\"access\"} 9\n"})
    EXPECT_NE(text.find(line), std::string::npos) << line << "\n" << text;
}

TEST(Metrics, ReportTheUsageOfModelsAndTenants) {
  Overview overview;
  overview.models.resize(2);
  overview.models[0].model = "m";
  overview.models[1].model = "unheard";
  overview.replicas.resize(4);
  for (dispatch::ReplicaStatus& status : overview.replicas) {
    status.spec.id = "r" + std::to_string(&status - overview.replicas.data());
    status.spec.model = "m";
    status.load.eligible = true;
  }
  overview.replicas[0].load.kv_usage = 0.5;
  overview.replicas[1].load.kv_usage = 0.25;
  overview.replicas[2].load.kv_usage = 1.0;
  overview.replicas[2].load.eligible = false;
  overview.tenants.resize(2);
  overview.tenants[0].name = "shop";
  overview.tenants[0].saturation = 0.75;
  overview.tenants[1].name = "free";
  std::string text = metrics_text(overview, {}, {});
  for (const std::string& fault : faults_of(text)) ADD_FAILURE() << fault;
  EXPECT_NE(text.find("penstock_model_saturation_ratio{model=\"m\"} 0.375\n"), std::string::npos) << text;
  EXPECT_EQ(text.find("penstock_model_saturation_ratio{model=\"unheard\"}"), std::string::npos);
  EXPECT_NE(text.find("penstock_tenant_saturation_ratio{tenant=\"shop\"} 0.75\n"), std::string::npos);
  EXPECT_EQ(text.find("penstock_tenant_saturation_ratio{tenant=\"free\"}"), std::string::npos);
  overview.models[0].waiting_for_room = 1;
  text = metrics_text(overview, {}, {});
  EXPECT_NE(text.find("penstock_model_saturation_ratio{model=\"m\"} 1\n"), std::string::npos);
}

TEST(PromptTokensIn, ReadsTheCountAndNothingFromGarbage) {
  EXPECT_EQ(prompt_tokens_in(R"({"count":3,"max_model_len":4096,"tokens":[1,2,3],"token_strs":null})"), 3U);
  EXPECT_EQ(prompt_tokens_in(R"({"tokens":[1,2,3],"count":3,"max_model_len":4096})"), 3U) << "as SGLang orders them";
  for (const char* text : {"", "[]", "{}", "3", R"({"count":-1})", R"({"count":0})", R"({"count":"3"})",
                           R"({"count":4294967296})", R"({"count":1.5})", R"({"usage":{"count":3}})"})
    EXPECT_FALSE(prompt_tokens_in(text)) << text;
}

TEST(ModelsIn, ReadsNamesAndLengthsAndNothingFromGarbage) {
  const auto models =
      models_in(R"({"data":[{"id":"base","root":"/weights","parent":null,"max_model_len":4096},{"id":7},)"
                R"({"id":"lora-a","root":"/lora","parent":"base","max_model_len":-1}]})");
  ASSERT_EQ(models.size(), 2U);
  EXPECT_EQ(models[0].id, "base");
  EXPECT_EQ(models[0].root, "/weights");
  EXPECT_EQ(models[0].context_tokens, 4096U);
  EXPECT_EQ(models[1].id, "lora-a");
  EXPECT_EQ(models[1].parent, "base");
  EXPECT_EQ(models[1].context_tokens, 0U);
  for (const char* text : {"", "[]", "{}", R"({"data":[]})", R"({"data":{}})", R"({"data":[1]})",
                           R"({"data":[{"id":7}]})", R"({"data":[{}]})", "{\"data\":[{\"id\":\"\xff\"}]}"})
    EXPECT_TRUE(models_in(text).empty()) << text;
}

}  // namespace
}  // namespace penstock::gateway
