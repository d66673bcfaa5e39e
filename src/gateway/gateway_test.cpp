// A gateway from the outside: who may ask, what waits, where it goes, what its admin address says.
#include "gateway/gateway.h"

#include "api/prompt_keys.h"
#include "gateway/gateway_testing.h"

namespace penstock::gateway {
namespace {

using namespace std::chrono_literals;

GatewayOptions with_tenants() {
  GatewayOptions options = quiet_options();
  options.anonymous = false;
  options.dispatch.tenants.resize(2);
  options.dispatch.tenants[0].name = "shop";
  options.api_keys.push_back({"sk-shop", 0, "SHOP_KEY"});
  options.dispatch.tenants[1].name = "search";
  options.api_keys.push_back({"sk-search", 1});
  return options;
}

std::string get_models(const TestGateway& gateway, std::string_view fields = {}) {
  RawClient client{gateway.address()};
  client.send(net::testing::get("/v1/models", fields));
  return client.read_answer().body;
}

TEST(Gateway, FindsTheTenantByTheKey) {
  TestReplica replica{answer_well};
  TestGateway gateway{{spec_of(replica, "r1")}, with_tenants()};
  EXPECT_EQ(ask(gateway, chat_body(), "Authorization: Bearer sk-shop\r\n").status, 200);
  EXPECT_EQ(ask(gateway, chat_body(), "authorization: bearer sk-search\r\nX-Tenant: shop\r\n").status, 200);
  const auto entries = gateway.closed(2);
  EXPECT_EQ(entries[0].tenant, "shop");
  EXPECT_EQ(entries[0].key_name, "SHOP_KEY");
  EXPECT_EQ(entries[1].key_name, "");
  EXPECT_EQ(entries[1].tenant, "search") << "who pays is told by the key alone";
}

TEST(Gateway, RefusesInvalidKeysWithoutRepeatingThem) {
  TestReplica replica{answer_well};
  TestGateway gateway{{spec_of(replica, "r1")}, with_tenants()};
  for (const char* fields : {"", "Authorization: Bearer sk-guess\r\n", "Authorization: Basic sk-shop\r\n"}) {
    const auto answer = ask(gateway, chat_body(), fields);
    EXPECT_EQ(answer.status, 401);
    EXPECT_EQ(field_in(answer.head, "www-authenticate"), "Bearer");
    EXPECT_NE(answer.body.find("invalid_api_key"), std::string::npos);
    EXPECT_EQ(answer.body.find("sk-"), std::string::npos);
  }
  EXPECT_NE(get_models(gateway).find("invalid_api_key"), std::string::npos);
  EXPECT_TRUE(replica.requests().empty());
}

TEST(Gateway, CountsEveryRefusalOnce) {
  TestReplica replica{answer_well};
  TestGateway gateway{{spec_of(replica, "r1")}, with_tenants()};
  const auto status_of = [&](const std::string& request) {
    RawClient client{gateway.address()};
    client.send(request);
    return client.read_answer().status;
  };
  const std::string key = "Authorization: Bearer sk-shop\r\n";
  EXPECT_TRUE(gateway.wait_for(R"("models_complete":true)"));
  EXPECT_EQ(ask(gateway, chat_body(), "").status, 401);
  EXPECT_EQ(ask(gateway, chat_body("hi", R"(,"user":")" + std::string(300'000, 'u') + '"'), "").status, 401);
  EXPECT_EQ(status_of(net::testing::get("/v1/models")), 401);
  EXPECT_EQ(status_of(net::testing::get("/v1/models/none", key)), 404);
  EXPECT_EQ(status_of(net::testing::get("/v2/anything")), 404);
  EXPECT_EQ(status_of(net::testing::get("/v1/chat/completions")), 405);
  EXPECT_EQ(ask(gateway, "{", key).status, 400);
  EXPECT_EQ(ask(gateway, chat_body(), key + "X-Traffic-Class: fast\r\n").status, 400);
  EXPECT_EQ(ask(gateway, R"({"model":"none","messages":[{"role":"user","content":"hi"}]})", key).status, 404);
  EXPECT_EQ(ask(gateway, chat_body(), key).status, 200);
  const std::string metrics = gateway.admin("/metrics");
  for (const char* line : {"invalid_api_key\"} 3\n", "unknown_url\"} 1\n", "method_not_allowed\"} 1\n",
                           "invalid_request\"} 1\n", "invalid_traffic_class\"} 1\n", "model_not_found\"} 2\n"})
    EXPECT_NE(metrics.find(std::string{"penstock_refusals_total{code=\""} + line), std::string::npos) << metrics;
}

TEST(Gateway, TakesNewKeysAndLimitsWithoutARestart) {
  TestReplica replica{answer_well};
  TestGateway gateway{{spec_of(replica, "r1")}, with_tenants()};
  EXPECT_EQ(ask(gateway, chat_body(), "Authorization: Bearer sk-shop\r\n").status, 200);
  GatewayOptions next = with_tenants();
  next.anonymous = true;
  next.api_keys = {{"sk-new", 0}, {"sk-search", 1}};
  next.dispatch.tenants[1].context_tokens = 1;
  ASSERT_TRUE((*gateway).reconfigure(std::move(next)));
  const auto status_with = [&](const std::string& key) {
    return ask(gateway, chat_body(), "Authorization: Bearer " + key + "\r\n").status;
  };
  // The worker takes the settings between two requests.
  for (int i = 0; i < 200 && status_with("sk-new") != 200; ++i) std::this_thread::sleep_for(10ms);
  EXPECT_EQ(status_with("sk-new"), 200);
  EXPECT_EQ(status_with("sk-shop"), 401);
  EXPECT_EQ(status_with("sk-search"), 400) << "a context of one token holds no request";
  EXPECT_EQ(ask(gateway, chat_body(), "").status, 200) << "requests without a key are admitted now";
}

TEST(Gateway, AddsAndRemovesTenantsWithoutARestart) {
  TestReplica replica{answer_well};
  TestGateway gateway{{spec_of(replica, "r1")}, with_tenants()};
  const auto status_with = [&](const std::string& key) {
    return ask(gateway, chat_body(), "Authorization: Bearer " + key + "\r\n").status;
  };
  EXPECT_EQ(status_with("sk-shop"), 200);
  GatewayOptions next = with_tenants();
  next.dispatch.tenants.erase(next.dispatch.tenants.begin());
  next.dispatch.tenants.emplace_back().name = "store";
  next.api_keys = {{"sk-search", 0}, {"sk-store", 1}};
  ASSERT_TRUE((*gateway).reconfigure(next));
  for (int i = 0; i < 200 && status_with("sk-store") != 200; ++i) std::this_thread::sleep_for(10ms);
  EXPECT_EQ(status_with("sk-store"), 200);
  EXPECT_EQ(status_with("sk-search"), 200);
  EXPECT_EQ(status_with("sk-shop"), 401);
  // The tenant comes back with its old number.
  ASSERT_TRUE((*gateway).reconfigure(with_tenants()));
  for (int i = 0; i < 200 && status_with("sk-shop") != 200; ++i) std::this_thread::sleep_for(10ms);
  EXPECT_EQ(status_with("sk-shop"), 200);
  EXPECT_EQ(status_with("sk-store"), 401);
}

TEST(Gateway, RefusesSettingsWithInvalidKeys) {
  TestReplica replica{answer_well};
  TestGateway gateway{{spec_of(replica, "r1")}, with_tenants()};
  GatewayOptions same_key = with_tenants();
  same_key.api_keys.push_back({"sk-shop", 1});
  same_key.anonymous = true;
  EXPECT_FALSE((*gateway).reconfigure(std::move(same_key)));
  EXPECT_EQ(ask(gateway, chat_body(), "Authorization: Bearer sk-shop\r\n").status, 200);
  EXPECT_EQ(ask(gateway, chat_body(), "").status, 401);
}

TEST(Gateway, ListsTheModelsThereAre) {
  TestReplica replica{answer_well};
  TestGateway gateway{{spec_of(replica, "r1"), spec_of(replica, "r2")}, with_tenants()};
  EXPECT_EQ(get_models(gateway, "Authorization: Bearer sk-shop\r\n"),
            R"({"object":"list","data":[{"id":"m","object":"model","created":0,"owned_by":"penstock",)"
            R"("max_model_len":32768}]})");
}

TEST(Gateway, ListsTheModelsAndLimitsOfAKey) {
  TestReplica replica{answer_well};
  GatewayOptions options = with_tenants();
  options.dispatch.tenants[0].models = {"other"};
  options.dispatch.tenants[1].context_tokens = 4096;
  options.dispatch.tenants[1].caps = {3000, 0};
  options.dispatch.models[0].caps = {3500, 500};
  TestGateway gateway{{spec_of(replica, "r1")}, std::move(options)};
  EXPECT_EQ(get_models(gateway, "Authorization: Bearer sk-shop\r\n"), R"({"object":"list","data":[]})");
  EXPECT_NE(get_models(gateway, "Authorization: Bearer sk-search\r\n").find(R"("id":"m")"), std::string::npos);
  EXPECT_NE(get_models(gateway, "Authorization: Bearer sk-search\r\n")
                .find(R"("max_model_len":4096,"max_prompt_tokens":3000,"max_completion_tokens":500}]})"),
            std::string::npos);
}

TEST(Gateway, ReadsTheModelOfAReplica) {
  TestReplica replica{answer_well};
  ReplicaEndpoint spec = spec_of(replica, "r1");
  spec.model.clear();
  TestGateway gateway{{}};
  (*gateway).set_replicas({spec});
  EXPECT_TRUE(gateway.wait_for(R"("model":"m")"));
  EXPECT_EQ(ask(gateway, chat_body()).status, 200);
}

TEST(Gateway, NamesTheServedModelsForAnUnknownOne) {
  TestGateway gateway{{}};
  RawClient client{gateway.address()};
  client.send(net::testing::get("/v2/anything"));
  EXPECT_EQ(client.read_answer().status, 404);
  client.send(net::testing::get("/v1/chat/completions"));
  auto refused = client.read_answer();
  EXPECT_EQ(refused.status, 405);
  EXPECT_EQ(field_in(refused.head, "allow"), "POST");
  client.send(net::testing::post("/v1/models", "{}"));
  refused = client.read_answer();
  EXPECT_EQ(refused.status, 405);
  EXPECT_EQ(field_in(refused.head, "allow"), "GET, HEAD");
  client.send(net::testing::get("/health"));
  EXPECT_EQ(client.read_answer().status, 200);
}

TEST(Gateway, RefusesAnUnknownTrafficClass) {
  TestReplica replica{answer_well};
  TestGateway gateway{{spec_of(replica, "r1")}};
  EXPECT_EQ(ask(gateway, chat_body(), "X-Traffic-Class: urgent\r\n").status, 400);
  EXPECT_EQ(ask(gateway, chat_body(), "X-Traffic-Class: batch\r\n").status, 200);
  EXPECT_EQ(gateway.closed(1).front().traffic_class, "batch");
}

TEST(Gateway, QueuedRequestsAreGrantedOnEveryThread) {
  TestReplica replica{answer_well};
  ReplicaEndpoint warming = spec_of(replica, "r1");
  warming.phase = dispatch::ReplicaPhase::kWarming;
  GatewayOptions options = quiet_options();
  options.threads = 3;
  TestGateway gateway{{warming}, std::move(options)};
  std::vector<std::unique_ptr<RawClient>> clients;
  for (int i = 0; i < 12; ++i) {
    clients.push_back(std::make_unique<RawClient>(gateway.address()));
    clients.back()->send(chat_request(chat_body("hi", i % 2 == 0 ? kStream : "")));
  }
  EXPECT_TRUE(gateway.wait_for(R"("interactive":12)"));
  EXPECT_TRUE(replica.requests().empty());
  gateway.set_replicas({spec_of(replica, "r1")});
  for (const auto& client : clients) EXPECT_EQ(client->read_answer().status, 200);
  EXPECT_EQ(gateway.closed(12).size(), 12U);
}

TEST(Gateway, AQueueTimeoutHasRetryAfter) {
  TestReplica replica{answer_well};
  ReplicaEndpoint warming = spec_of(replica, "r1");
  warming.phase = dispatch::ReplicaPhase::kWarming;
  GatewayOptions options = quiet_options();
  options.dispatch.interactive.queue_time = 50ms;
  TestGateway gateway{{warming}, std::move(options)};
  const auto answer = ask(gateway, chat_body());
  EXPECT_EQ(answer.status, 503);
  EXPECT_NE(answer.body.find("queue_timeout"), std::string::npos);
  EXPECT_NE(field_in(answer.head, "retry-after"), "");
}

TEST(Gateway, AClientThatLeavesTheQueueIsForgotten) {
  TestReplica replica{answer_well};
  ReplicaEndpoint warming = spec_of(replica, "r1");
  warming.phase = dispatch::ReplicaPhase::kWarming;
  TestGateway gateway{{warming}};
  {
    RawClient client{gateway.address()};
    client.send(chat_request(chat_body()));
    EXPECT_TRUE(gateway.wait_for(R"("interactive":1)"));
  }
  EXPECT_TRUE(gateway.wait_for(R"("interactive":0)"));
}

TEST(Gateway, EndsWhileRequestsWaitAndRun) {
  TestReplica replica{[](Peer& peer, const std::string&, int) { peer.wait_until_closed(); }};
  GatewayOptions options = quiet_options();
  options.threads = 2;
  options.dispatch.tenants.resize(1);
  options.dispatch.tenants[0].name = "shop";
  options.api_keys.push_back({"sk-shop", 0});
  options.dispatch.tenants[0].concurrent = 2;
  options.dispatch.tenants[0].over_budget = dispatch::OverBudget::kQueue;
  TestGateway gateway{{spec_of(replica, "r1")}, std::move(options)};
  std::vector<std::unique_ptr<RawClient>> clients;
  for (int i = 0; i < 16; ++i) {
    clients.push_back(std::make_unique<RawClient>(gateway.address()));
    clients.back()->send(chat_request(chat_body(), "Authorization: Bearer sk-shop\r\n"));
  }
  EXPECT_TRUE(gateway.wait_for(R"("running":2)"));
  for (std::size_t i = 0; i < 4; ++i) clients[i]->close();  // what they leave lets others in as it all ends
  gateway.end();
}

TEST(Gateway, ClampsMaxTokensUnderPressure) {
  TestReplica replica{answer_well};
  ReplicaEndpoint warming = spec_of(replica, "r1");
  warming.phase = dispatch::ReplicaPhase::kWarming;
  GatewayOptions options = quiet_options();
  options.dispatch.interactive.degrade = {0, 7};
  TestGateway gateway{{warming}, std::move(options)};
  std::vector<std::unique_ptr<RawClient>> clients;
  for (int i = 0; i < 3; ++i) {
    clients.push_back(std::make_unique<RawClient>(gateway.address()));
    clients.back()->send(chat_request(chat_body("hi", R"(,"max_tokens":1000,"seed":5)")));
  }
  EXPECT_TRUE(gateway.wait_for(R"("interactive":3)"));
  gateway.set_replicas({spec_of(replica, "r1")});
  int told = 0;
  for (const auto& client : clients) {
    const auto answer = client->read_answer();
    EXPECT_EQ(answer.status, 200);
    told += answer.head.find("\r\nx-penstock-max-tokens: 7\r\n") != std::string::npos ? 1 : 0;
  }
  const std::string clamped = chat_body("hi", R"(,"max_tokens":7,"seed":5)");
  int seen = 0;
  for (const std::string& request : replica.requests())
    if (request.ends_with("\r\n\r\n" + clamped)) ++seen;
  EXPECT_GE(seen, 1);
  EXPECT_EQ(told, seen);
  EXPECT_NE(gateway.admin("/metrics")
                .find(R"(penstock_overload_actions_total{class="interactive",tenant="anonymous",action="degrade"} )" +
                      std::to_string(seen)),
            std::string::npos);
  EXPECT_EQ(gateway.admin("/penstock/v1/overview").find(R"("clamped_total":0)"), std::string::npos);
}

TEST(Gateway, KvEventsShowTheHoldersOfAPrefix) {
  TestReplica replica{answer_well};
  GatewayOptions options = quiet_options();
  options.dispatch.key_tokens = 16;
  TestGateway gateway{{spec_of(replica, "r1"), spec_of(replica, "r2"), spec_of(replica, "r3")}, std::move(options)};
  // They name blocks as we do.
  ask(gateway, chat_body(std::string(100, 'y')));
  std::vector<std::uint64_t> known;
  api::prompt_keys("user\n" + std::string(100, 'y'), 16 * api::kBytesPerToken, known);
  for (const char* id : {"r1", "r2", "r3"}) (*gateway).kv_event(id, dispatch::KvChange::kStored, known);
  for (int i = 0; i < 6; ++i) {
    const std::string id = "r" + std::to_string(1 + i % 3);
    const std::string prompt = "prompt " + std::to_string(i) + std::string(4000, 'x');
    std::vector<std::uint64_t> keys;
    api::prompt_keys("user\n" + prompt + "\n", 16 * api::kBytesPerToken, keys);
    (*gateway).kv_event(id, dispatch::KvChange::kStored, keys);
    const auto answer = ask(gateway, chat_body(prompt));
    EXPECT_EQ(field_in(answer.head, "x-penstock-replica"), id);
    EXPECT_EQ(field_in(answer.head, "x-penstock-route"), "prefix");
  }
  const std::string metrics = gateway.admin("/metrics");
  for (const char* id : {"r1", "r2", "r3"}) {
    const std::string series = fmt::format("penstock_routing_decisions_total{{replica=\"{}\",model=\"m\",reason=", id);
    EXPECT_NE(metrics.find(series + "\"prefix\"} 2\n"), std::string::npos) << metrics;
    EXPECT_NE(metrics.find(series + "\"only\"} 0\n"), std::string::npos) << metrics;
  }
}

TEST(Gateway, APortThatIsTakenIsAnErrorThatNamesIt) {
  TestGateway gateway{{}};
  logging::testing::CapturedLog log;
  for (const std::uint32_t threads : {1U, 2U}) {
    GatewayOptions options = quiet_options();
    options.threads = threads;
    const auto second = Gateway::open(std::move(options), gateway.address(), net::Address{}, nullptr, {log});
    ASSERT_FALSE(second);
    EXPECT_NE(second.error().message().find(std::to_string(gateway.address().port())), std::string::npos);
  }
}

TEST(Gateway, AKeyOfTwoTenantsIsAnErrorThatHidesIt) {
  GatewayOptions options = with_tenants();
  options.api_keys.push_back({"sk-shop", 1});
  logging::testing::CapturedLog log;
  const auto opened = Gateway::open(std::move(options), net::Address{}, net::Address{}, nullptr, {log});
  ASSERT_FALSE(opened);
  EXPECT_NE(opened.error().message().find("tenant search"), std::string::npos);
  EXPECT_EQ(opened.error().message().find("sk-shop"), std::string::npos);
}

TEST(Gateway, DrainCompletesRequestsInFlight) {
  std::promise<void> go_on;
  const std::shared_future<void> may_go_on = go_on.get_future().share();
  TestReplica replica{[&](Peer& peer, const std::string&, int) {
    peer.send(chunked_head() + chunk(text_event("one")));
    may_go_on.wait();
    peer.send(chunk(api::kDoneEvent) + std::string{net::kLastChunk});
  }};
  TestGateway gateway{{spec_of(replica, "r1")}};
  RawClient client{gateway.address()};
  client.send(chat_request(chat_body("hi", kStream)));
  EXPECT_NE(client.read_until("one"), "");
  EXPECT_NE(gateway.admin("/penstock/v1/overview").find(R"("draining":false)"), std::string::npos);
  std::promise<void> drained;
  (*gateway).drain([&] { drained.set_value(); });
  auto done = drained.get_future();
  EXPECT_TRUE(gateway.wait_for(R"("draining":true)")) << "planners wait for what is open";
  EXPECT_EQ(done.wait_for(300ms), std::future_status::timeout);
  go_on.set_value();
  EXPECT_TRUE(client.read_all().ends_with(net::kLastChunk));
  EXPECT_EQ(done.wait_for(20s), std::future_status::ready);
}

TEST(Admin, ReadyReportsWhetherAReplicaMayBeChosen) {
  TestReplica replica{answer_well};
  TestGateway gateway{{}};
  RawClient client{(*gateway).admin_address()};
  client.send(net::testing::get("/ready"));
  EXPECT_EQ(client.read_answer().status, 503);
  gateway.set_replicas({spec_of(replica, "r1")});
  ASSERT_TRUE(gateway.wait_until_ready());
  client.send(net::testing::get("/ready"));
  EXPECT_EQ(client.read_answer().status, 200);
  client.send(net::testing::post("/ready", "{}"));
  const auto refused = client.read_answer();
  EXPECT_EQ(refused.status, 405);
  EXPECT_EQ(field_in(refused.head, "allow"), "GET, HEAD");
  EXPECT_EQ(gateway.admin_answer("/nothing").status, 404);
}

TEST(Admin, ChecksTheHostAndTheTokenOfAllPathsButThoseOfProbes) {
  TestReplica replica{answer_well};
  TestGateway gateway{{spec_of(replica, "r1")}};
  const std::string token = "Authorization: Bearer token\r\n";
  for (const char* path : {"/metrics", "/penstock/v1/overview", "/penstock/v1/traffic", "/penstock/v1/prefixes"}) {
    EXPECT_EQ(gateway.admin_answer(path).status, 200) << path;
    EXPECT_EQ(gateway.admin_answer(path, "Host: evil.example\r\n" + token).status, 421) << path;
    const auto refused = gateway.admin_answer(path, "Host: localhost\r\n");
    EXPECT_EQ(refused.status, 401) << path;
    EXPECT_EQ(field_in(refused.head, "www-authenticate"), "Bearer");
  }
  ASSERT_TRUE(gateway.wait_until_ready());
  for (const char* path : {"/health", "/ready"})
    EXPECT_EQ(gateway.admin_answer(path, "Host: evil.example\r\n").status, 200) << path;
  // A reload replaces the credentials.
  GatewayOptions next = quiet_options();
  next.admin_access = {{"gateway.internal"}, {}, false, true};
  ASSERT_TRUE((*gateway).reconfigure(next));
  const auto status = [&](const char* path) { return gateway.admin_answer(path, "Host: gateway.internal\r\n").status; };
  for (int i = 0; i < 200 && status("/metrics") != 200; ++i) std::this_thread::sleep_for(10ms);
  EXPECT_EQ(status("/metrics"), 200);
  EXPECT_EQ(status("/penstock/v1/prefixes"), 403) << "texts of prompts need credentials in any case";
}

TEST(Admin, ReturnsTrafficFromANumberOn) {
  TestReplica replica{[](Peer& peer, const std::string&, int) {
    peer.send(chunked_head() + chunk(text_event("one")) + chunk(api::kDoneEvent) + std::string{net::kLastChunk});
  }};
  TestGateway gateway{{spec_of(replica, "r1")}};
  ask(gateway, chat_body("hi", kStream));
  gateway.closed(1);
  const std::string all = gateway.admin("/penstock/v1/traffic");
  EXPECT_NE(all.find(R"(["arrival",)"), std::string::npos);
  EXPECT_NE(all.find(R"(["first_token",)"), std::string::npos);
  EXPECT_NE(all.find(R"(["end",)"), std::string::npos);
  EXPECT_NE(all.find(R"("next":3)"), std::string::npos);
  EXPECT_EQ(gateway.admin("/penstock/v1/traffic?after=2").find("arrival"), std::string::npos);
  EXPECT_NE(gateway.admin("/penstock/v1/traffic?limit=1").find(R"("next":1,)"), std::string::npos);
}

TEST(Admin, ReturnsHotPrefixesOfAModel) {
  TestReplica replica{answer_well};
  TestGateway gateway{{spec_of(replica, "r1")}};
  const auto prefixes = [&](std::string_view model) {
    return gateway.admin("/penstock/v1/prefixes?model=" + std::string{model});
  };
  for (int i = 0; i < 2; ++i) ask(gateway, chat_body(std::string(1200, 'x') + std::to_string(i)));
  EXPECT_NE(prefixes("m").find(R"("prefixes":[])"), std::string::npos);
  ask(gateway, chat_body(std::string(1200, 'x') + "2"));
  EXPECT_NE(prefixes("m").find(R"("path":"/v1/chat/completions","tokens":256,"hits":3)"), std::string::npos)
      << prefixes("m");
  EXPECT_NE(prefixes("n").find(R"("prefixes":[])"), std::string::npos) << "that is another model";
}

TEST(Gateway, SendsAHotPrefixAgainToAReplicaThatWasIdle) {
  TestReplica replica{answer_well};
  GatewayOptions options = quiet_options();
  options.prefix_pings.emplace().idle = std::chrono::milliseconds{1};
  options.ping_interval = std::chrono::milliseconds{10};
  TestGateway gateway{{spec_of(replica, "r1")}, std::move(options)};
  const auto pings = [&] {
    const auto requests = replica.requests();
    return std::count_if(requests.begin(), requests.end(),
                         [](const std::string& request) { return request.ends_with(R"("max_tokens":1})"); });
  };
  for (int i = 0; i < 2; ++i) ask(gateway, chat_body(std::string(1200, 'x')));
  EXPECT_EQ(pings(), 0);
  ask(gateway, chat_body(std::string(1200, 'x')));
  EXPECT_TRUE(gateway.wait_until([&](const std::string&) { return pings() >= 2; }));
  EXPECT_EQ(gateway.closed(3).size(), 3U) << "a ping is not a request of a user";
}

TEST(Admin, WithoutHotPrefixesNoTextIsKept) {
  TestReplica replica{answer_well};
  GatewayOptions options = quiet_options();
  options.hot_prefixes = false;
  TestGateway gateway{{spec_of(replica, "r1")}, std::move(options)};
  for (int i = 0; i < 5; ++i) ask(gateway, chat_body(std::string(1200, 'x')));
  EXPECT_NE(gateway.admin("/penstock/v1/prefixes").find(R"("prefixes":[])"), std::string::npos);
}

// As a vLLM that was put to sleep: /health and /v1/models answer as ever.
TEST(Admin, AReplicaAsleepIsNotChosenUntilItWakesUp) {
  const auto metrics = [](int awake) {
    return "vllm:num_requests_running 0\nvllm:num_requests_waiting 0\n"
           "vllm:engine_sleep_state{sleep_state=\"awake\"} " +
           std::to_string(awake) + "\n";
  };
  TestReplica sleeper{answer_well}, good{answer_well};
  sleeper.set_metrics(metrics(0));
  GatewayOptions options = quiet_options();
  options.health_interval = options.scrape_interval = 20ms;
  TestGateway gateway{{spec_of(sleeper, "sleeper"), spec_of(good, "good")}, std::move(options)};
  EXPECT_TRUE(gateway.wait_for(R"("code":"asleep")"));
  EXPECT_TRUE(gateway.wait_for(R"("healthy":false)"));
  for (int i = 0; i < 10; ++i) EXPECT_EQ(ask(gateway, chat_body()).status, 200);
  EXPECT_TRUE(sleeper.requests().empty());
  sleeper.set_metrics(metrics(1));
  EXPECT_TRUE(gateway.wait_until(
      [](const std::string& overview) { return overview.find(R"("healthy":false)") == std::string::npos; }));
}

TEST(Admin, AnUnhealthyReplicaIsNotChosen) {
  TestReplica good{answer_well};
  ReplicaEndpoint unreachable = replica_named("unreachable");
  unreachable.addresses = {*net::Address::parse("127.0.0.1", 1)};
  GatewayOptions options = quiet_options();
  options.health_interval = 20ms;
  TestGateway gateway{{unreachable, spec_of(good, "good")}, std::move(options)};
  EXPECT_TRUE(gateway.wait_for(R"("healthy":false)"));
  for (int i = 0; i < 10; ++i) EXPECT_EQ(ask(gateway, chat_body()).status, 200);
  EXPECT_NE(gateway.admin("/penstock/v1/overview").find(R"("retried_total":0)"), std::string::npos);
}

}  // namespace
}  // namespace penstock::gateway
