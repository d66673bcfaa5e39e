// What clients send to control engines does not reach them, and tenants do not see each other's caches.
#include <charconv>

#include "gateway/gateway_testing.h"

namespace penstock::gateway {
namespace {

// A tenant "a" with the key sk-a, and another tenant "b".
GatewayOptions two_tenants() {
  GatewayOptions options = quiet_options();
  options.dispatch.tenants.resize(2);
  options.dispatch.tenants[0].name = "a";
  options.dispatch.tenants[1].name = "b";
  options.api_keys = {{"sk-a", 0}, {"sk-b", 1}};
  return options;
}
constexpr std::string_view kA = "Authorization: Bearer sk-a\r\n", kB = "Authorization: Bearer sk-b\r\n";

std::string body_of(const std::string& request) { return request.substr(request.find("\r\n\r\n") + 4); }

TEST(EngineControls, OfClientsAreDroppedAndCounted) {
  TestReplica replica{answer_well};
  TestGateway gateway{{spec_of(replica, "r1")}};
  const std::string more =
      R"(,"kv_transfer_params":{"remote_host":"169.254.169.254","do_remote_prefill":true},"\u0070riority":-1000000,)"
      R"("cache_salt":"x","request_id":"r","vllm_xargs":{"a":1},"data_parallel_rank":3,"seed":5)";
  EXPECT_EQ(ask(gateway, chat_body("hi", more),
                "X-data-parallel-rank: 3\r\nCookie: a=b\r\nX-Api-Key: sk-x\r\nX-Request-Id: abc\r\n")
                .status,
            200);
  ASSERT_EQ(replica.requests().size(), 1U);
  const std::string request = replica.requests()[0];
  EXPECT_EQ(body_of(request), chat_body("hi", R"(,"seed":5)"));
  net::RequestHead head;  // It refers to the text of the request.
  static_cast<void>(net::parse_request_head(std::string_view{request}.substr(0, request.find("\r\n\r\n") + 4), head));
  for (const char* name : {"x-data-parallel-rank", "cookie", "x-api-key", "authorization"})
    EXPECT_TRUE(head.field(name).empty()) << name;
  EXPECT_TRUE(head.field("x-request-id").starts_with("abc-")) << head.field("x-request-id");
  const std::string metrics = gateway.admin("/metrics");
  for (const char* line : {R"(penstock_dropped_controls_total{kind="field",name="kv_transfer_params"} 1)",
                           R"(penstock_dropped_controls_total{kind="field",name="priority"} 1)",
                           R"(penstock_dropped_controls_total{kind="header",name="x-data-parallel-rank"} 1)",
                           R"(penstock_dropped_controls_total{kind="header",name="cookie"} 1)"})
    EXPECT_NE(metrics.find(line), std::string::npos) << line << "\n" << metrics;
  gateway.end();
}

TEST(EngineControls, FieldsThatOverruleLimitsOrJoinEventsAreDropped) {
  TestReplica replica{answer_well};
  TestGateway gateway{{spec_of(replica, "r1")}};
  const std::string more =
      R"(,"max_tokens":2,"n_predict":4000,"n_cmpl":8,"stream_interval":100000,"id_slot":0,"lora":[{"id":0,"scale":1}])";
  EXPECT_EQ(ask(gateway, chat_body("hi", more)).status, 200);
  EXPECT_EQ(body_of(replica.requests().at(0)), chat_body("hi", R"(,"max_tokens":2)"));
  gateway.end();
}

TEST(EngineControls, TensorsInAMessageAreRejected) {
  TestReplica replica{answer_well};
  const std::string body =
      R"({"model":"m","messages":[{"role":"user","content":[{"type":"prompt_embeds","data":"AAAA"}]}]})";
  for (const bool forwarded : {false, true}) {
    GatewayOptions options = quiet_options();
    if (forwarded) options.forward.fields = {"prompt_embeds"};
    TestGateway gateway{{spec_of(replica, "r1")}, options};
    EXPECT_EQ(ask(gateway, body).status, forwarded ? 200 : 400);
    gateway.end();
  }
  EXPECT_EQ(replica.requests().size(), 1U);
}

TEST(EngineControls, ABodyWithoutThemIsSentUnchanged) {
  TestReplica replica{answer_well};
  TestGateway gateway{{spec_of(replica, "r1")}};
  const std::string body =
      R"( { "messages" : [ {"role":"user","content":"priority"} ] , "model":"m" ,"x":{"priority":1}} )";
  EXPECT_EQ(ask(gateway, body).status, 200);
  EXPECT_EQ(body_of(replica.requests().at(0)), body);
  gateway.end();
}

TEST(EngineControls, AreRejectedIfTheGatewayIsStrict) {
  TestReplica replica{answer_well};
  GatewayOptions options = quiet_options();
  options.forward.strict = true;
  options.forward.fields = {"rid"};
  options.forward.headers = {"X-Dp-Rank"};
  TestGateway gateway{{spec_of(replica, "r1")}, options};
  const auto field = ask(gateway, chat_body("hi", R"(,"priority":1)"));
  EXPECT_EQ(field.status, 400);
  EXPECT_NE(field.body.find(R"("param":"priority","code":"engine_control")"), std::string::npos) << field.body;
  EXPECT_EQ(ask(gateway, chat_body(), "x-data-parallel-rank: 0\r\n").status, 400);
  EXPECT_TRUE(replica.requests().empty());
  // What an option names passes.
  EXPECT_EQ(ask(gateway, chat_body("hi", R"(,"rid":"1")"), "x-dp-rank: 0\r\n").status, 200);
  EXPECT_NE(replica.requests().at(0).find("x-dp-rank: 0\r\n"), std::string::npos);
  EXPECT_EQ(body_of(replica.requests().at(0)), chat_body("hi", R"(,"rid":"1")"));
  gateway.end();
}

TEST(EngineControls, ThePriorityIsThatOfTheTenant) {
  TestReplica replica{answer_well};
  GatewayOptions options = two_tenants();
  options.engine_priority = true;
  options.dispatch.tenants[0].priority = -5;
  TestGateway gateway{{spec_of(replica, "r1")}, options};
  EXPECT_EQ(ask(gateway, chat_body("hi", R"(,"priority":-9)"), kA).status, 200);
  EXPECT_EQ(ask(gateway, chat_body("hi", R"(,"priority":-9)"), kB).status, 200);
  EXPECT_EQ(body_of(replica.requests().at(0)), chat_body("hi", R"(,"priority":-5)"));
  EXPECT_EQ(body_of(replica.requests().at(1)), chat_body("hi"));
  gateway.end();
}

TEST(Isolation, SeparatesTheCachesOfTenants) {
  TestReplica replica{answer_well};
  GatewayOptions options = two_tenants();
  options.isolation = dispatch::Isolation::kTenant;
  options.dispatch.key_tokens = 16;
  TestGateway gateway{{spec_of(replica, "r1")}, options};
  const std::string prompt(4000, 'x');
  std::vector<std::string> salts;
  std::vector<int> keys;  // That the gateway counts as cached.
  for (const std::string_view tenant : {kA, kA, kB}) {
    static_cast<void>(ask(gateway, chat_body(prompt, R"(,"cache_salt":"guess")"), tenant));
    const std::string body = body_of(replica.requests().back());
    const std::size_t at = body.find(R"("cache_salt":")");
    ASSERT_NE(at, std::string::npos);
    salts.push_back(body.substr(at));
    const std::string metrics = gateway.admin("/metrics");
    const std::size_t gauge = metrics.find("\npenstock_replica_prefix_keys{");
    ASSERT_NE(gauge, std::string::npos);
    const std::size_t value = metrics.find("} ", gauge) + 2;
    std::from_chars(metrics.data() + value, metrics.data() + metrics.size(), keys.emplace_back());
  }
  EXPECT_GT(keys[0], 0);
  EXPECT_EQ(keys[1], keys[0]);
  EXPECT_EQ(keys[2], 2 * keys[0]);
  EXPECT_EQ(salts[0], salts[1]);
  EXPECT_NE(salts.front(), salts.back());
  EXPECT_EQ(salts[0].find("guess"), std::string::npos);
  // A text that other tenants could warm their caches with is not kept.
  EXPECT_NE(gateway.admin("/penstock/v1/prefixes").find(R"("prefixes":[])"), std::string::npos);
  gateway.end();
}

TEST(Isolation, OfOneTenantLeavesTheOthersTogether) {
  TestReplica replica{answer_well};
  GatewayOptions options = two_tenants();
  options.dispatch.tenants[0].isolation = dispatch::Isolation::kTenant;
  TestGateway gateway{{spec_of(replica, "r1")}, options};
  ask(gateway, chat_body(), kA);
  ask(gateway, chat_body(), kB);
  EXPECT_NE(replica.requests().at(0).find("cache_salt"), std::string::npos);
  EXPECT_EQ(body_of(replica.requests().at(1)), chat_body());
  gateway.end();
}

TEST(ExposeRouting, IsForOperatorsUnlessAnOptionSaysOtherwise) {
  TestReplica replica{answer_well};
  for (const ExposeRouting expose : {ExposeRouting::kNever, ExposeRouting::kOperators, ExposeRouting::kAlways}) {
    GatewayOptions options = two_tenants();
    options.expose_routing = expose;
    options.dispatch.tenants[0].is_operator = true;
    TestGateway gateway{{spec_of(replica, "r1")}, options};
    const bool to_a = expose != ExposeRouting::kNever, to_b = expose == ExposeRouting::kAlways;
    for (const auto& [key, visible] : {std::pair{kA, to_a}, {kB, to_b}}) {
      const auto answer = ask(gateway, chat_body(), key);
      EXPECT_EQ(field_in(answer.head, "x-penstock-replica"), visible ? "r1" : "") << to_string(expose);
      EXPECT_EQ(field_in(answer.head, "x-penstock-route"), visible ? "only" : "") << to_string(expose);
    }
    gateway.end();
  }
}

}  // namespace
}  // namespace penstock::gateway
