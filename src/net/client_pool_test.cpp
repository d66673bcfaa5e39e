#include "net/client_pool.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "net/client.h"
#include "net/client_testing.h"

namespace penstock::net {
namespace {

using namespace testing;

void answer_all(Peer& peer, int) {
  while (peer.read_request()) peer.send(kHello);
}

Recorder fetch_once(Loop& loop, Client& client, const Address& address) {
  Recorder recorder{loop};
  client.call(to(address), kGet, {}, recorder);
  run(loop);
  return recorder;
}

TEST(ClientPool, ReusesAnIdleConnection) {
  ScriptedServer server{answer_all};
  Loop loop;
  Client client{loop};
  for (int i = 0; i < 20; ++i) EXPECT_EQ(fetch_once(loop, client, server.address()).body, "hello");
  EXPECT_EQ(server.accepted(), 1);
  EXPECT_EQ(client.open_connections(), 1U);
}

TEST(ClientPool, ReusesTheMostRecentConnection) {
  std::vector<std::atomic<int>> requests(3);
  ScriptedServer server{[&](Peer& peer, int number) {
    while (peer.read_request()) {
      ++requests[static_cast<std::size_t>(number)];
      peer.send(kHello);
    }
  }};
  Loop loop;
  Client client{loop};
  std::vector<std::unique_ptr<Recorder>> recorders;
  int over = 0;
  for (int i = 0; i < 3; ++i) {
    recorders.push_back(std::make_unique<Recorder>(loop));
    recorders.back()->at_over = [&] {
      if (++over == 3) loop.stop();
    };
    client.call(to(server.address()), kGet, {}, *recorders.back());
  }
  run(loop);
  EXPECT_EQ(client.open_connections(), 3U);
  for (int i = 0; i < 10; ++i) fetch_once(loop, client, server.address());
  EXPECT_EQ(std::max({requests[0].load(), requests[1].load(), requests[2].load()}), 11);
}

TEST(ClientPool, AllowsACallFromWithinTheEndOfAnother) {
  ScriptedServer server{answer_all};
  Loop loop;
  Client client{loop};
  Recorder second{loop}, first{loop};
  first.at_over = [&] { client.call(to(server.address()), kGet, {}, second); };
  client.call(to(server.address()), kGet, {}, first);
  run(loop);
  EXPECT_EQ(second.body, "hello");
  EXPECT_EQ(server.accepted(), 1);
}

TEST(ClientPool, KeepsNoMoreThanTheLimit) {
  ScriptedServer server{answer_all};
  Loop loop;
  ClientLimits limits;
  limits.idle_connections = 2;
  Client client{loop, limits};
  std::vector<std::unique_ptr<Recorder>> recorders;
  int over = 0;
  for (int i = 0; i < 5; ++i) {
    recorders.push_back(std::make_unique<Recorder>(loop));
    recorders.back()->at_over = [&] {
      if (++over == 5) loop.stop();
    };
    client.call(to(server.address()), kGet, {}, *recorders.back());
  }
  EXPECT_EQ(client.open_connections(), 5U);
  run(loop);
  EXPECT_EQ(client.open_connections(), 2U);
}

TEST(ClientPool, ClosesIdleConnectionsAfterTheTimeout) {
  ScriptedServer server{answer_all};
  Loop loop;
  ClientLimits limits;
  limits.idle_time = std::chrono::milliseconds{1};
  Client client{loop, limits};
  fetch_once(loop, client, server.address());
  for (int i = 0; i < 100 && client.open_connections() > 0; ++i) run_for(loop, std::chrono::milliseconds{50});
  EXPECT_EQ(client.open_connections(), 0U);
}

TEST(ClientPool, DropsConnectionsThatCloseOrReceiveUnexpectedBytes) {
  for (const bool closes : {true, false}) {
    ScriptedServer server{[&](Peer& peer, int) {
      peer.read_request();
      peer.send(kHello);
      std::this_thread::sleep_for(std::chrono::milliseconds{20});
      if (closes) return;
      peer.send("HTTP/1.1 408 Request Timeout\r\n\r\n");
      peer.wait_until_closed();
    }};
    Loop loop;
    Client client{loop};
    fetch_once(loop, client, server.address());
    for (int i = 0; i < 100 && client.open_connections() > 0; ++i) run_for(loop, std::chrono::milliseconds{20});
    EXPECT_EQ(client.open_connections(), 0U);
  }
}

TEST(ClientPool, DropsConnectionsMarkedAsClose) {
  for (const char* answer : {"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok",
                             "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
                             "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\n"}) {
    ScriptedServer server{[&](Peer& peer, int) {
      peer.read_request();
      peer.send(answer);
      peer.wait_until_closed();
    }};
    Loop loop;
    Client client{loop};
    const Recorder recorder = fetch_once(loop, client, server.address());
    EXPECT_EQ(recorder.body, "ok");
    EXPECT_EQ(client.open_connections(), 0U) << answer;
  }
}

// The connection closes right after the request, before the client can notice it.
TEST(ClientPool, ReplacesAStaleConnectionOnce) {
  for (const bool resets : {false, true}) {
    ScriptedServer server{[&](Peer& peer, int number) {
      peer.read_request();
      peer.send(kHello);
      peer.read_request();
      if (number == 0) return resets ? peer.reset() : peer.close();
      peer.send(kHello);
      peer.wait_until_closed();
    }};
    Loop loop;
    Client client{loop};
    EXPECT_EQ(fetch_once(loop, client, server.address()).ends, 1);
    EXPECT_EQ(fetch_once(loop, client, server.address()).body, "hello");
    EXPECT_EQ(server.accepted(), 2);
  }
}

TEST(ClientPool, ARequestThatTheServerHadTimeToReadIsNotSentAgain) {
  for (const bool resets : {false, true}) {
    ScriptedServer server{[&](Peer& peer, int) {
      peer.read_request();
      peer.send(kHello);
      peer.read_request();
      std::this_thread::sleep_for(std::chrono::milliseconds{100});
      if (resets) peer.reset();
    }};
    Loop loop;
    ClientLimits limits;
    limits.stale_time = std::chrono::milliseconds{10};
    Client client{loop, limits};
    EXPECT_EQ(fetch_once(loop, client, server.address()).ends, 1);
    const Recorder recorder = fetch_once(loop, client, server.address());
    EXPECT_EQ(recorder.fault, ClientFault::kClosed);
    EXPECT_FALSE(recorder.answered);
    EXPECT_EQ(server.accepted(), 1);
  }
}

TEST(ClientPool, DoesNotRetryOnANewConnection) {
  ScriptedServer server{[&](Peer& peer, int) { peer.read_request(); }};
  Loop loop;
  Client client{loop};
  const Recorder recorder = fetch_once(loop, client, server.address());
  EXPECT_EQ(recorder.fault, ClientFault::kClosed);
  EXPECT_FALSE(recorder.answered);
  EXPECT_EQ(server.accepted(), 1);
}

TEST(ClientPool, DoesNotRetryAfterResponseBytes) {
  ScriptedServer server{[&](Peer& peer, int) {
    peer.read_request();
    peer.send(kHello);
    peer.read_request();
    peer.send("HTTP/1.1 2");
  }};
  Loop loop;
  Client client{loop};
  fetch_once(loop, client, server.address());
  const Recorder recorder = fetch_once(loop, client, server.address());
  EXPECT_EQ(recorder.fault, ClientFault::kClosed);
  EXPECT_TRUE(recorder.answered);
  EXPECT_EQ(server.accepted(), 1);
}

TEST(ClientPool, FailsIfTheServerStoppedBetweenCalls) {
  Loop loop;
  Client client{loop};
  Address address;
  {
    ScriptedServer server{[&](Peer& peer, int) {
      peer.read_request();
      peer.send(kHello);
    }};
    address = server.address();
    fetch_once(loop, client, address);
  }
  const Recorder recorder = fetch_once(loop, client, address);
  EXPECT_EQ(recorder.fault, ClientFault::kConnect);
  EXPECT_FALSE(recorder.answered);
}

TEST(ClientPool, KeepsConnectionsOfSeveralServersApart) {
  const auto name = [](const std::string& text) {
    return [text](Peer& peer, int) {
      while (peer.read_request())
        peer.send("HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(text.size()) + "\r\n\r\n" + text);
    };
  };
  ScriptedServer one{name("one")}, two{name("two")};
  Loop loop;
  Client client{loop};
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(fetch_once(loop, client, one.address()).body, "one");
    EXPECT_EQ(fetch_once(loop, client, two.address()).body, "two");
  }
  EXPECT_EQ(client.open_connections(), 2U);
  client.close_idle(one.address());
  EXPECT_EQ(client.open_connections(), 1U);
  client.close_idle(one.address());
  EXPECT_EQ(fetch_once(loop, client, two.address()).body, "two");
  EXPECT_EQ(fetch_once(loop, client, one.address()).body, "one");
  EXPECT_EQ(two.accepted(), 1);
  EXPECT_EQ(one.accepted(), 2);
}

}  // namespace
}  // namespace penstock::net
