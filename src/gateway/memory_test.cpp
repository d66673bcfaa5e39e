// Limits of memory, and large bodies, which are parsed beside the data path.
#include <charconv>
#include <chrono>
#include <future>
#include <string>
#include <thread>

#include "gateway/gateway_testing.h"

namespace penstock::gateway {
namespace {

using namespace std::chrono_literals;

GatewayOptions with_memory(std::size_t limit) {
  GatewayOptions options = quiet_options();
  options.memory_max = limit;
  options.server.body_bytes = 64 << 20;
  return options;
}

std::string padded_body(std::size_t bytes) {
  return chat_body("hi", R"(,"metadata":{"padding":")" + std::string(bytes, 'x') + "\"}");
}

double metric(TestGateway& gateway, const std::string& name) {
  const std::string text = gateway.admin("/metrics");
  const std::size_t at = text.find("\n" + name + " ");
  double number = -1.0;
  if (at != std::string::npos) std::from_chars(text.data() + at + name.size() + 2, text.data() + text.size(), number);
  return number;
}

bool wait_for_memory(TestGateway& gateway, double bytes) {
  for (int i = 0; i < 2000; ++i) {
    if (metric(gateway, "penstock_memory_held_bytes") == bytes) return true;
    std::this_thread::sleep_for(5ms);
  }
  return false;
}

TEST(Memory, LargeBodiesAreAnsweredLikeSmallOnes) {
  std::string received;
  TestReplica replica{[&](Peer& peer, const std::string& request, int number) {
    received = request;
    answer_well(peer, request, number);
  }};
  TestGateway gateway{{spec_of(replica, "r1")}, with_memory(256 << 20)};
  for (const std::size_t size : {300u * 1024, 3u << 20}) {
    const std::string body = padded_body(size);
    const auto answer = ask(gateway, body);
    EXPECT_EQ(answer.status, 200) << answer.body;
    EXPECT_NE(received.find(std::string(size, 'x')), std::string::npos);
  }
  const auto refused = ask(gateway, padded_body(1 << 20).substr(0, 1 << 20));
  EXPECT_EQ(refused.status, 400) << refused.body;
  EXPECT_TRUE(wait_for_memory(gateway, 0.0));
}

TEST(Memory, BodiesOfHungReplicasAreRefusedAboveTheLimit) {
  std::promise<void> end;
  const std::shared_future<void> ended = end.get_future().share();
  TestReplica replica{[&](Peer& peer, const std::string& request, int number) {
    if (request.find("padding") != std::string::npos) ended.wait();
    answer_well(peer, request, number);
  }};
  GatewayOptions options = with_memory(64 << 20);
  options.api_keys = {{"first", 0}, {"second", 1}};
  options.dispatch.tenants.resize(2);
  options.dispatch.tenants[0].name = "first";
  options.dispatch.tenants[1].name = "second";
  // A retry is possible, so that the bodies are kept.
  TestGateway gateway{{spec_of(replica, "r1"), spec_of(replica, "r2")}, std::move(options)};
  const std::string body = padded_body(4 << 20);
  std::vector<std::unique_ptr<RawClient>> waiting;
  int refused = 0;
  for (int i = 0; i < 16; ++i) {
    auto client = std::make_unique<RawClient>(gateway.address());
    client->send(chat_request(body, "Authorization: Bearer first\r\n"));
    const std::size_t expected = waiting.size() + 1;
    const auto replica_has = [&] { return replica.requests().size() == expected; };
    std::string head;
    for (int turn = 0; turn < 400 && !replica_has(); ++turn) {
      if (metric(gateway, "penstock_memory_refusals_total") > refused) break;
      std::this_thread::sleep_for(5ms);
    }
    if (replica_has()) {
      waiting.push_back(std::move(client));
      continue;
    }
    const auto answer = client->read_answer();
    EXPECT_EQ(answer.status, 503);
    EXPECT_FALSE(field_in(answer.head, "retry-after").empty());
    ++refused;
  }
  EXPECT_GT(refused, 8);
  EXPECT_GT(waiting.size(), 2u);
  EXPECT_LE(metric(gateway, R"(penstock_tenant_memory_held_bytes{tenant="first"})"), 32 << 20);
  // Another tenant is served meanwhile.
  EXPECT_EQ(ask(gateway, chat_body(), "Authorization: Bearer second\r\n").status, 200);
  end.set_value();
  for (const auto& client : waiting) EXPECT_EQ(client->read_answer().status, 200);
  EXPECT_TRUE(wait_for_memory(gateway, 0.0));
}

TEST(Memory, ABodyIsReleasedWithTheFirstByteOfTheAnswer) {
  std::promise<void> end;
  const std::shared_future<void> ended = end.get_future().share();
  TestReplica replica{[&](Peer& peer, const std::string&, int) {
    peer.send(chunked_head() + chunk(text_event("one")));
    ended.wait();
  }};
  TestGateway gateway{{spec_of(replica, "r1")}, with_memory(256 << 20)};
  RawClient client{gateway.address()};
  client.send(
      chat_request(chat_body("hi", kStream + R"(,"metadata":{"padding":")" + std::string(1 << 20, 'x') + "\"}")));
  client.read_until("one");
  EXPECT_TRUE(wait_for_memory(gateway, 0.0));
  end.set_value();
}

TEST(Memory, ABodyIsReleasedOnceItIsSentAndNoOtherReplicaCanTakeIt) {
  for (const bool fails : {false, true}) {
    std::promise<void> end;
    const std::shared_future<void> ended = end.get_future().share();
    TestReplica replica{[&](Peer& peer, const std::string&, int) {
      ended.wait();
      fails ? peer.cut() : peer.send(good_answer());
    }};
    TestGateway gateway{{spec_of(replica, "r1")}, with_memory(256 << 20)};
    std::vector<std::unique_ptr<RawClient>> clients;
    for (int i = 0; i < 3; ++i) {
      clients.push_back(std::make_unique<RawClient>(gateway.address()));
      clients.back()->send(chat_request(padded_body(4 << 20)));
    }
    while (replica.requests().size() < clients.size()) std::this_thread::sleep_for(1ms);
    EXPECT_TRUE(wait_for_memory(gateway, 0.0));
    EXPECT_NE(gateway.admin("/penstock/v1/overview").find(R"("open_requests":3)"), std::string::npos);
    end.set_value();
    for (const auto& client : clients) EXPECT_EQ(client->read_answer().status, fails ? 502 : 200);
  }
}

TEST(Memory, ABodyIsReleasedWhenNoRetryIsLeft) {
  std::promise<void> end;
  const std::shared_future<void> ended = end.get_future().share();
  TestReplica replica{[&](Peer& peer, const std::string&, int number) {
    if (number == 0) return peer.cut();
    ended.wait();
    peer.send(good_answer());
  }};
  GatewayOptions options = with_memory(256 << 20);
  options.dispatch.retries = 1;
  TestGateway gateway{{spec_of(replica, "r1"), spec_of(replica, "r2"), spec_of(replica, "r3")}, std::move(options)};
  RawClient client{gateway.address()};
  client.send(chat_request(padded_body(4 << 20)));
  while (replica.requests().size() < 2) std::this_thread::sleep_for(1ms);
  EXPECT_TRUE(wait_for_memory(gateway, 0.0));
  end.set_value();
  EXPECT_EQ(client.read_answer().status, 200);
}

TEST(Memory, ABodyThatAnotherReplicaCanTakeIsKept) {
  std::promise<void> end;
  const std::shared_future<void> ended = end.get_future().share();
  TestReplica replica{[&](Peer& peer, const std::string& request, int number) {
    if (number == 0) {
      ended.wait();
      return peer.cut();
    }
    answer_well(peer, request, number);
  }};
  TestGateway gateway{{spec_of(replica, "r1"), spec_of(replica, "r2")}, with_memory(256 << 20)};
  RawClient client{gateway.address()};
  client.send(chat_request(padded_body(4 << 20)));
  while (replica.requests().empty()) std::this_thread::sleep_for(1ms);
  std::this_thread::sleep_for(1600ms);  // Bodies are looked at twice in this time.
  EXPECT_GE(metric(gateway, "penstock_memory_held_bytes"), 4 << 20);
  end.set_value();
  EXPECT_EQ(client.read_answer().status, 200);
  EXPECT_NE(replica.requests().back().find(std::string(4 << 20, 'x')), std::string::npos);
}

TEST(Memory, AClientThatLeavesWhileItsBodyIsParsedReleasesIt) {
  TestReplica replica{answer_well};
  TestGateway gateway{{spec_of(replica, "r1")}, with_memory(512 << 20)};
  for (int i = 0; i < 8; ++i) {
    RawClient client{gateway.address()};
    client.send(chat_request(padded_body(4 << 20)));
    client.reset();
  }
  EXPECT_TRUE(wait_for_memory(gateway, 0.0));
  EXPECT_EQ(ask(gateway, padded_body(4 << 20)).status, 200);
}

// One with the key "key".
void add_tenant(GatewayOptions& options) {
  options.api_keys = {{"key", 0}};
  options.dispatch.tenants.resize(1);
  options.dispatch.tenants[0].name = "tenant";
}

std::string head_of_a_large_body(std::string_view key) {
  return "POST /v1/chat/completions HTTP/1.1\r\nHost: gateway\r\nAuthorization: Bearer " + std::string{key} +
         "\r\nContent-Length: 9000000\r\n\r\n";
}

TEST(Memory, ALargeBodyWithoutAValidKeyIsRefusedBeforeItIsRead) {
  TestReplica replica{answer_well};
  GatewayOptions options = with_memory(256 << 20);
  add_tenant(options);
  TestGateway gateway{{spec_of(replica, "r1")}, std::move(options)};
  RawClient client{gateway.address()};
  client.send(head_of_a_large_body("no"));
  const auto answer = client.read_answer();
  EXPECT_EQ(answer.status, 401);
  EXPECT_NE(answer.body.find("invalid_api_key"), std::string::npos) << answer.body;
}

TEST(Memory, ALargeBodyOfATenantAtItsLimitIsRefusedBeforeItIsRead) {
  std::promise<void> end;
  const std::shared_future<void> ended = end.get_future().share();
  TestReplica replica{[&](Peer& peer, const std::string& request, int number) {
    ended.wait();
    answer_well(peer, request, number);
  }};
  GatewayOptions options = with_memory(256 << 20);
  add_tenant(options);
  options.dispatch.tenants[0].concurrent = 1;
  TestGateway gateway{{spec_of(replica, "r1")}, std::move(options)};
  RawClient first{gateway.address()}, second{gateway.address()};
  first.send(chat_request(chat_body(), "Authorization: Bearer key\r\n"));
  ASSERT_TRUE(gateway.wait_for(R"("open_requests":1)"));
  second.send(head_of_a_large_body("key"));
  const auto answer = second.read_answer();
  EXPECT_EQ(answer.status, 429);
  EXPECT_NE(answer.body.find("too_many_requests"), std::string::npos) << answer.body;
  EXPECT_EQ(field_in(answer.head, "retry-after"), "1");
  end.set_value();
  EXPECT_EQ(first.read_answer().status, 200);
}

TEST(Memory, ARefusalBeforeTheBodyIsReadNamesTheMemory) {
  TestReplica replica{answer_well};
  GatewayOptions options = with_memory(4 << 20);
  add_tenant(options);
  TestGateway gateway{{spec_of(replica, "r1")}, std::move(options)};
  RawClient client{gateway.address()};
  client.send(head_of_a_large_body("key"));
  const auto answer = client.read_answer();
  EXPECT_EQ(answer.status, 503);
  EXPECT_NE(answer.body.find(R"("type":"overloaded_error")"), std::string::npos) << answer.body;
  EXPECT_NE(answer.body.find(R"("code":"memory")"), std::string::npos) << answer.body;
  EXPECT_EQ(field_in(answer.head, "retry-after"), "1");
  EXPECT_EQ(metric(gateway, R"(penstock_refusals_total{code="memory"})"), 1.0);
}

TEST(Memory, UnsentOutputCountsForTheTenantOfItsRequest) {
  const std::string large = with_length("200 OK", std::string(40 << 20, 'x'));
  TestReplica replica{
      [&](Peer& peer, const std::string&, int number) { peer.send(number < 2 ? good_answer() : large); }};
  GatewayOptions options = with_memory(256 << 20);
  options.api_keys = {{"first", 0}, {"second", 1}};
  options.dispatch.tenants.resize(2);
  options.dispatch.tenants[0].name = "first";
  options.dispatch.tenants[1].name = "second";
  TestGateway gateway{{spec_of(replica, "r1")}, std::move(options)};
  for (int i = 0; i < 2; ++i) EXPECT_EQ(ask(gateway, chat_body(), "Authorization: Bearer first\r\n").status, 200);
  RawClient client{gateway.address(), 8 * 1024};
  client.send(chat_request(chat_body(), "Authorization: Bearer second\r\n"));
  // What the gateway holds while the client does not read may be too little to count. It changes with each read.
  double held = 0.0;
  for (int i = 0; i < 200 && held == 0.0 && client.read_some(); ++i)
    held = metric(gateway, R"(penstock_tenant_memory_held_bytes{tenant="second"})");
  EXPECT_GT(held, 0.0);
  EXPECT_EQ(metric(gateway, R"(penstock_tenant_memory_held_bytes{tenant="first"})"), 0.0);
  client.close();
  EXPECT_TRUE(wait_for_memory(gateway, 0.0));
}

TEST(Memory, AReplicaWithoutMetricsIsScrapedLessAndLessOften) {
  std::atomic<int> scrapes{0};
  net::testing::ScriptedServer server{[&](Peer& peer, int) {
    while (const auto request = peer.read_request()) {
      if (request->starts_with("GET /metrics")) ++scrapes;
      peer.send(with_length(request->starts_with("GET /metrics") ? "404 Not Found" : "200 OK", "{}"));
    }
  }};
  GatewayOptions options = quiet_options();
  options.scrape_interval = 5ms;
  ReplicaEndpoint replica = replica_named("r1");
  replica.url = "http://" + server.address().text();
  replica.addresses = {server.address()};
  TestGateway gateway{{replica}, std::move(options)};
  std::this_thread::sleep_for(1500ms);
  // Pauses of 10, 20, 40, … ms: 7 of them take 1.27 s.
  EXPECT_GE(scrapes, 2);
  EXPECT_LE(scrapes, 9);
}

}  // namespace
}  // namespace penstock::gateway
