// What a server holds counts against its memory budget.
#include <gtest/gtest.h>

#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "net/server.h"
#include "net/server_testing.h"

namespace penstock::net {
namespace {

using testing::get;
using testing::post;
using testing::RawClient;
using testing::TestServer;

// Keeps the bodies of its requests, as a gateway does that waits for replicas.
struct Keeper {
  void keep(Exchange& exchange) {
    Body body;
    exchange.take_body(body);
    bodies.push_back(std::move(body));
    exchanges.push_back(&exchange);
  }
  std::vector<Body> bodies;
  std::vector<Exchange*> exchanges;
};

TEST(ServerMemory, BodiesCountUntilTheyAreReleased) {
  ServerLimits limits;
  limits.memory = std::make_shared<MemoryBudget>(250'000, 250'000);
  Keeper keeper;
  TestServer server{[&](Exchange& exchange) { keeper.keep(exchange); }, limits};
  const std::string request = post("/", std::string(100'000, 'x'));
  RawClient first{server.address()}, second{server.address()};
  for (RawClient* client : {&first, &second}) client->send(request);
  ASSERT_TRUE(server.wait_until([](const ServerCounters& counters) { return counters.busy == 2; }));
  EXPECT_EQ(limits.memory->held(), 200'000u);

  // The announced length is enough for the refusal.
  RawClient announced{server.address()};
  announced.send("POST / HTTP/1.1\r\nHost: test\r\nContent-Length: 100000\r\n\r\n");
  const auto refusal = announced.read_answer();
  EXPECT_EQ(refusal.status, 503);
  EXPECT_NE(refusal.head.find("Retry-After: 1\r\n"), std::string::npos);
  // A body without an announced length is refused when it crosses the limit.
  RawClient growing{server.address()};
  growing.send("POST / HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n");
  const std::string chunk = "2000\r\n" + std::string(0x2000, 'x') + "\r\n";
  for (int i = 0; i < 10; ++i) growing.send(chunk);
  EXPECT_EQ(growing.read_answer().status, 503);

  server.run([&](Server&) {
    keeper.bodies.clear();
    for (Exchange* exchange : keeper.exchanges) exchange->respond(200, {}, "ok");
    keeper.exchanges.clear();
  });
  EXPECT_EQ(first.read_answer().status, 200);
  EXPECT_EQ(limits.memory->held(), 0u);
  EXPECT_EQ(server.counters().out_of_memory, 2u);
}

TEST(ServerMemory, UnsentOutputCounts) {
  ServerLimits limits;
  limits.memory = std::make_shared<MemoryBudget>(100'000'000, 100'000'000);
  const std::string large(20'000'000, 'y');
  TestServer server{[&](Exchange& exchange) { exchange.respond(200, {}, large); }, limits};
  RawClient client{server.address(), 8 * 1024};
  client.send(get("/"));
  ASSERT_TRUE(server.wait_until([&](const ServerCounters&) { return limits.memory->held() > 1'000'000; }));
  EXPECT_TRUE(client.read_answer().body == large);
  EXPECT_TRUE(server.wait_until([&](const ServerCounters&) { return limits.memory->held() == 0; }));
}

// A budget with one account for each path.
struct Tenants {
  MemoryAccount& account(std::string_view path) { return limits.memory->account(path); }
  ServerLimits limits = [] {
    ServerLimits made;
    made.memory = std::make_shared<MemoryBudget>(100'000'000, 50'000'000);
    return made;
  }();
};

TEST(ServerMemory, AnEarlierTenantDoesNotPayForABody) {
  for (const bool takes_body : {false, true}) {
    Tenants tenants;
    Body taken;
    TestServer server{[&](Exchange& exchange) {
                        if (takes_body) exchange.take_body(taken);
                        exchange.respond(200, {}, "ok");
                      },
                      tenants.limits};
    server.run([&](Server&) {
      server.admit = [&](const RequestHead& head) { return BodyAdmission{&tenants.account(head.path())}; };
    });
    RawClient client{server.address()};
    const auto status_of = [&](const std::string& path, std::size_t bytes) {
      client.send(post(path, std::string(bytes, 'x')));
      return client.read_answer().status;
    };
    EXPECT_EQ(status_of("/first", 20'000), 200);
    // Only bodies above kAdmittedBytes are admitted for a tenant.
    EXPECT_EQ(status_of("/second", 10'000), 200);
    MemoryAccount& first = tenants.account("/first");
    ASSERT_TRUE(server.wait_until([&](const ServerCounters&) { return first.held() == 0; }));
    ASSERT_TRUE(first.take(tenants.limits.memory->account_limit()));
    for (int i = 0; i < 3; ++i) EXPECT_EQ(status_of("/second", 10'000), 200) << takes_body;
    first.give_back(first.held());
  }
}

TEST(ServerMemory, TheTenantOfARequestPaysForItsUnsentOutput) {
  Tenants tenants;
  const std::string large(20'000'000, 'y');
  Body taken;
  TestServer server{[&](Exchange& exchange) {
                      const std::string_view path = exchange.head().path();
                      MemoryAccount& account = tenants.account(path);
                      exchange.take_body(taken);
                      if (path == "/charged") exchange.charge_to(account);
                      if (path != "/earlier") return exchange.respond(200, {}, large);
                      EXPECT_TRUE(taken.charge_to(account));
                      exchange.respond(200, {}, "ok");
                    },
                    tenants.limits};
  server.run([&](Server&) {
    server.admit = [&](const RequestHead& head) { return BodyAdmission{&tenants.account(head.path())}; };
  });
  struct Case {
    std::string path;
    std::size_t body_bytes;
    bool pays;
  };
  for (const Case& each : {Case{"/charged", 1, true}, Case{"/admitted", 20'000, true}, Case{"/small", 1, false}}) {
    RawClient earlier{server.address()}, client{server.address(), 8 * 1024};
    for (int i = 0; i < 2; ++i) {
      earlier.send(post("/earlier", "x"));
      EXPECT_EQ(earlier.read_answer().status, 200);
    }
    client.send(post(each.path, std::string(each.body_bytes, 'x')));
    ASSERT_TRUE(server.wait_until([&](const ServerCounters&) { return tenants.limits.memory->held() > 1'000'000; }));
    EXPECT_EQ(tenants.account("/earlier").held(), 0u) << each.path;
    EXPECT_EQ(tenants.account(each.path).held() > 1'000'000, each.pays) << each.path;
    EXPECT_TRUE(client.read_answer().body == large);
    server.run([&](Server&) { taken.clear(); });
    EXPECT_TRUE(server.wait_until([&](const ServerCounters&) { return tenants.limits.memory->held() == 0; }));
  }
}

TEST(ServerMemory, AFailedAllocationEndsOneRequest) {
  TestServer server{[](Exchange& exchange) {
    if (exchange.head().path() == "/fails") throw std::bad_alloc{};
    exchange.respond(200, {}, "ok");
  }};
  RawClient first{server.address()}, second{server.address()};
  first.send(get("/fails"));
  EXPECT_EQ(first.read_all(), "");
  second.send(get("/"));
  EXPECT_EQ(second.read_answer().status, 200);
  EXPECT_EQ(server.counters().out_of_memory, 1u);
}

}  // namespace
}  // namespace penstock::net
