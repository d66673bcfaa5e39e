// Time limits of the server: of heads, bodies and idle connections.
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <utility>

#include "net/server.h"
#include "net/server_testing.h"

namespace penstock::net {
namespace {

using std::chrono::milliseconds;
using testing::get;
using testing::RawClient;
using testing::TestServer;

void answer(Exchange& exchange) { exchange.respond(200, {}, "ok"); }

ServerLimits short_times() {
  ServerLimits limits;
  limits.head_time = limits.body_time = limits.idle_time = limits.write_time = milliseconds{60};
  return limits;
}

TEST(ServerTimeouts, SlowHeadsTimeOut) {
  TestServer server{answer, short_times()};
  RawClient client{server.address()};
  std::atomic<bool> stop{false};
  std::thread slow{[&] {
    client.send("GET / HTTP/1.1\r\nX: ");
    while (!stop && client.send("x")) std::this_thread::sleep_for(milliseconds{2});
  }};
  EXPECT_EQ(client.read_answer().status, 408);
  stop = true;
  slow.join();
  EXPECT_EQ(server.counters().timed_out, 1u);
}

TEST(ServerTimeouts, MissingBodiesTimeOut) {
  TestServer server{answer, short_times()};
  for (const char* part : {"Content-Length: 10\r\n\r\nhalf", "Transfer-Encoding: chunked\r\n\r\na\r\nhalf"}) {
    RawClient client{server.address()};
    client.send("POST / HTTP/1.1\r\nHost: test\r\n" + std::string{part});
    EXPECT_EQ(client.read_answer().status, 408) << part;
  }
}

TEST(ServerTimeouts, EachMebibyteExtendsTheTimeOfABody) {
  constexpr std::size_t kBytes = 8 * 1024 * 1024;
  ServerLimits limits;
  limits.body_bytes = 2 * kBytes;
  limits.body_time = milliseconds{400};
  std::atomic<std::size_t> received{0};
  TestServer server{[&](Exchange& exchange) {
                      received = exchange.body().size();
                      answer(exchange);
                    },
                    limits};
  const std::string most(kBytes - 1, 'x');
  const std::string length = "Content-Length: " + std::to_string(kBytes) + "\r\n\r\n";
  const std::pair<std::string, std::string> bodies[] = {
      {length + most, "x"}, {"Transfer-Encoding: chunked\r\n\r\n7fffff\r\n" + most, "\r\n1\r\nx\r\n0\r\n\r\n"}};
  for (const auto& [beginning, end] : bodies) {
    RawClient client{server.address()};
    client.send("POST / HTTP/1.1\r\nHost: test\r\n" + beginning);
    std::this_thread::sleep_for(2 * limits.body_time);
    client.send(end);
    EXPECT_EQ(client.read_answer().status, 200) << end;
    EXPECT_EQ(received, kBytes);
  }
}

TEST(ServerTimeouts, IdleConnectionsAreClosedSilently) {
  TestServer server{answer, short_times()};
  RawClient unused{server.address()}, used{server.address()};
  used.send(get("/"));
  EXPECT_EQ(used.read_answer().status, 200);
  EXPECT_EQ(used.read_all(), "");
  EXPECT_EQ(unused.read_all(), "");
  EXPECT_EQ(server.counters().timed_out, 0u);
}

TEST(ServerTimeouts, TheIdleTimeBeginsOnceTheAnswerIsSent) {
  ServerLimits limits;
  limits.idle_time = milliseconds{60};
  const std::string large(20'000'000, 'y');
  TestServer server{[&](Exchange& exchange) { exchange.respond(200, {}, large); }, limits};
  RawClient client{server.address(), 8 * 1024};
  client.send(get("/"));
  ASSERT_TRUE(server.wait_until([](const ServerCounters& counters) { return counters.requests == 1; }));
  std::this_thread::sleep_for(5 * limits.idle_time);
  EXPECT_EQ(server.counters().open, 1u);
  EXPECT_TRUE(client.read_answer().body == large);
  EXPECT_EQ(client.read_all(), "");
  EXPECT_EQ(server.counters().timed_out, 0u);
}

TEST(ServerTimeouts, DuringADrainASlowClientReceivesTheWholeAnswer) {
  Exchange* streaming = nullptr;
  TestServer server{[&](Exchange& exchange) { streaming = &exchange; }};
  RawClient client{server.address(), 8 * 1024};
  client.send(get("/"));
  ASSERT_TRUE(server.wait_until([](const ServerCounters& counters) { return counters.busy == 1; }));
  const std::string large(20'000'000, 'y');
  server.run([&](Server& running) {
    streaming->start(200, {});
    streaming->write("x");
    running.announce_drain();
    streaming->write(large);
    streaming->finish();
  });
  std::this_thread::sleep_for(milliseconds{1500});  // Longer than an idle connection lasts during a drain.
  const auto got = client.read_answer();
  EXPECT_TRUE(got.whole);
  EXPECT_EQ(got.body.size(), large.size() + 1);
  EXPECT_EQ(client.read_all(), "");
}

TEST(ServerTimeouts, ARequestInFlightHasNoTimeout) {
  TestServer* running = nullptr;
  TestServer server{
      [&](Exchange& exchange) { running->loop().after(milliseconds{300}, [&exchange] { answer(exchange); }); },
      short_times()};
  running = &server;
  RawClient client{server.address()};
  client.send(get("/"));
  EXPECT_EQ(client.read_answer().status, 200);
}

}  // namespace
}  // namespace penstock::net
