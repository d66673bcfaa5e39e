// Behaviour of the server with clients that send too much, too slowly, nothing or invalid input, or that disconnect.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <array>
#include <atomic>
#include <chrono>
#include <ctime>
#include <memory>
#include <string>
#include <vector>

#include "net/server.h"
#include "net/server_testing.h"

namespace penstock::net {
namespace {

using std::chrono::milliseconds;
using testing::get;
using testing::post;
using testing::RawClient;
using testing::TestServer;

void answer(Exchange& exchange) { exchange.respond(200, {}, "ok"); }

TEST(ServerLimits, RejectsMalformedRequestsWithAReasonAndCloses) {
  struct Case {
    std::string request;
    std::string begin;
  };
  const std::vector<Case> cases = {
      {"GET /\r\n\r\n", "HTTP/1.1 400 Bad Request\r\n"},
      {"\x16\x03\x01", "HTTP/1.1 400 Bad Request\r\n"},
      {"GET / HTTP/1.1\r\n\r\n", "HTTP/1.1 400 Bad Request\r\n"},
      {"GET / HTTP/2.0\r\nHost: test\r\n\r\n", "HTTP/1.1 505 "},
      {get("/", "Transfer-Encoding: gzip\r\n"), "HTTP/1.1 501 "},
      {get("/", "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n"), "HTTP/1.1 400 "},
      {get("/", "X-Long: " + std::string(40'000, 'x') + "\r\n"), "HTTP/1.1 431 "},
      {"GET /" + std::string(70'000, 'x'), "HTTP/1.1 431 "},
      {get("/", "Transfer-Encoding: chunked\r\n") + "x\r\n", "HTTP/1.1 400 "},
      {get("/", "Content-Length: 1000001\r\n"), "HTTP/1.1 413 "},
      {get("/", "Expect: 100-continue\r\nContent-Length: 1000001\r\n"), "HTTP/1.1 413 "},
  };
  ServerLimits limits;
  limits.body_bytes = 1'000'000;
  TestServer server{[](Exchange&) { ADD_FAILURE() << "no request here is one"; }, limits};
  for (const Case& c : cases) {
    RawClient client{server.address()};
    client.send(c.request);
    const auto refusal = client.read_answer();
    EXPECT_TRUE(refusal.head.starts_with(c.begin)) << c.request.substr(0, 100) << refusal.head;
    EXPECT_NE(refusal.head.find("Content-Type: application/json\r\n"), std::string::npos);
    EXPECT_NE(refusal.head.find("Connection: close\r\n"), std::string::npos);
    EXPECT_TRUE(refusal.body.starts_with("{\"status\":"));
    EXPECT_EQ(client.read_all(), "");
  }
  EXPECT_EQ(server.counters().malformed, cases.size());
}

TEST(ServerLimits, RequestsAfterARejectedOneAreIgnored) {
  std::atomic<int> served{0};
  TestServer server{[&](Exchange& exchange) {
    ++served;
    answer(exchange);
  }};
  RawClient client{server.address()};
  client.send(get("/") + get("/", "Content-Length: 1\r\nContent-Length: 2\r\n") + get("/"));
  EXPECT_EQ(client.read_answer().status, 200);
  EXPECT_EQ(client.read_answer().status, 400);
  EXPECT_EQ(client.read_all(), "");
  EXPECT_EQ(served, 1);
}

TEST(ServerLimits, ASendingClientReceivesTheRejection) {
  ServerLimits limits;
  limits.body_bytes = 100'000;
  TestServer server{answer, limits};
  RawClient client{server.address()};
  // Chunked, so that the server learns the size only as it grows.
  client.send("POST / HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n");
  const std::string chunk = "4000\r\n" + std::string(0x4000, 'x') + "\r\n";
  for (int i = 0; i < 20; ++i) client.send(chunk);
  EXPECT_EQ(client.read_answer().status, 413);
}

TEST(ServerLimits, TheTotalSizeOfBodiesIsLimited) {
  ServerLimits limits;
  limits.memory = std::make_shared<MemoryBudget>(250'000, 250'000);
  TestServer server{answer, limits};
  const std::string most = post("/", std::string(100'000, 'x'));
  RawClient first{server.address()}, second{server.address()}, third{server.address()};
  for (RawClient* client : {&first, &second, &third}) client->send(most.substr(0, most.size() - 1));
  // The system decides which of the bodies exceeds the limit.
  ASSERT_TRUE(server.wait_until([](const ServerCounters& counters) { return counters.out_of_memory == 1; }));
  std::array<int, 600> statuses{};
  for (RawClient* client : {&first, &second, &third}) {
    client->send("x");
    ++statuses[static_cast<std::size_t>(client->read_answer().status)];
  }
  EXPECT_EQ(statuses[503], 1);
  EXPECT_EQ(statuses[200], 2);
  RawClient later{server.address()};
  later.send(most);
  EXPECT_EQ(later.read_answer().status, 200) << "what was refused or read counts no more";
}

// An earlier request makes sure that threads and sanitizers have opened their files.
void serve_one(TestServer& server) {
  {
    RawClient earlier{server.address()};
    earlier.send(get("/"));
    ASSERT_EQ(earlier.read_answer().status, 200);
  }
  ASSERT_TRUE(server.wait_until([](const ServerCounters& counters) { return counters.open == 0; }));
}

// The process may open one more file until lift() or the end.
class OneDescriptorLeft {
 public:
  OneDescriptorLeft() {
    const int next = dup(0);
    ::close(next);
    getrlimit(RLIMIT_NOFILE, &before_);
    rlimit low = before_;
    low.rlim_cur = static_cast<rlim_t>(next) + 1;
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
  }
  ~OneDescriptorLeft() { lift(); }
  OneDescriptorLeft(const OneDescriptorLeft&) = delete;
  OneDescriptorLeft& operator=(const OneDescriptorLeft&) = delete;
  void lift() { EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &before_), 0); }

 private:
  rlimit before_{};
};

TEST(ServerLimits, ReservedDescriptorsServeTheirServer) {
  ServerLimits limits;
  limits.reserved_descriptors = 2;
  TestServer server{answer, limits};
  serve_one(server);
  OneDescriptorLeft limit;  // For the client, none for the server.
  RawClient client{server.address()};
  client.send(get("/"));
  const int status = client.read_answer().status;
  limit.lift();
  EXPECT_EQ(status, 200);
}

TEST(ServerLimits, ExcessConnectionsAreClosedAtOnce) {
  ServerLimits limits;
  limits.connections = 2;
  TestServer server{answer, limits};
  RawClient first{server.address()}, second{server.address()};
  ASSERT_TRUE(server.wait_until([](const ServerCounters& counters) { return counters.open == 2; }));
  RawClient third{server.address()};
  EXPECT_EQ(third.read_all(), "");
  EXPECT_EQ(server.counters().refused, 1u);
  first.close();
  ASSERT_TRUE(server.wait_until([](const ServerCounters& counters) { return counters.open == 1; }));
  RawClient fourth{server.address()};
  fourth.send(get("/"));
  EXPECT_EQ(fourth.read_answer().status, 200);
}

TEST(ServerLimits, AcceptsAgainWhenDescriptorsAreAvailable) {
  TestServer server{answer};
  serve_one(server);
  OneDescriptorLeft limit;  // For the client, none for the server.
  RawClient client{server.address()};
  client.send(get("/"));
  EXPECT_EQ(server.counters().accepted, 1u);
  limit.lift();
  EXPECT_EQ(client.read_answer().status, 200);
}

// A stream that writes whenever it may, up to a total.
class Stream final : public ExchangeListener {
 public:
  void begin(Exchange& exchange) {
    exchange_ = &exchange;
    exchange.listen(this);
    exchange.start(200, {});
    on_writable();
  }
  void on_writable() override {
    ++turns;
    while (written < total) {
      written += piece.size();
      if (!exchange_->write(piece)) return;
    }
    exchange_->finish();
    ++finished;
  }
  void on_client_gone() override { ++gone; }

  const std::string piece = std::string(10'000, 'x');
  std::atomic<std::size_t> written{0}, total{50'000'000};
  std::atomic<int> turns{0}, finished{0}, gone{0};

 private:
  Exchange* exchange_ = nullptr;
};

TEST(ServerLimits, AStreamWaitsForAClientThatDoesNotRead) {
  Stream stream;
  TestServer server{[&](Exchange& exchange) { stream.begin(exchange); }};
  RawClient client{server.address(), 8 * 1024};
  client.send(get("/"));
  ASSERT_TRUE(server.wait_until([&](const ServerCounters&) { return stream.written > 0; }));
  std::size_t before = 0;
  do {
    before = stream.written;
    std::this_thread::sleep_for(milliseconds{50});
  } while (stream.written != before);
  EXPECT_LT(before, stream.total) << "the socket's own buffers cannot hold all of it";
  const auto got = client.read_answer();
  EXPECT_TRUE(got.whole);
  EXPECT_EQ(got.body.size(), stream.total);
  EXPECT_GT(stream.turns, 1);
  EXPECT_EQ(stream.finished, 1);
  EXPECT_EQ(stream.gone, 0);
}

TEST(ServerLimits, AClientThatReadsNothingIsDisconnected) {
  Stream stream;
  ServerLimits limits;
  limits.write_time = milliseconds{60};
  TestServer server{[&](Exchange& exchange) { stream.begin(exchange); }, limits};
  RawClient client{server.address(), 8 * 1024};
  client.send(get("/"));
  ASSERT_TRUE(
      server.wait_until([&](const ServerCounters& counters) { return counters.open == 0 && counters.accepted == 1; }));
  EXPECT_EQ(stream.gone, 1);
  EXPECT_EQ(stream.finished, 0);
  EXPECT_EQ(server.counters().timed_out, 1u);
  EXPECT_EQ(server.counters().busy, 0u);
}

TEST(ServerLimits, ABufferedResponseIsSentCompletely) {
  const std::string large(20'000'000, 'y');
  TestServer server{[&](Exchange& exchange) { exchange.respond(200, {}, large); }};
  RawClient client{server.address(), 8 * 1024};
  client.send(get("/1") + get("/2", "Connection: close\r\n"));
  EXPECT_TRUE(client.read_answer().body == large);
  EXPECT_TRUE(client.read_answer().body == large);
  EXPECT_EQ(client.read_all(), "");
}

TEST(ServerLimits, StopsServingAClientThatDoesNotRead) {
  const std::string large(1'000'000, 'y');
  TestServer server{[&](Exchange& exchange) { exchange.respond(200, {}, large); }};
  RawClient client{server.address(), 8 * 1024};
  constexpr int kRequests = 500;
  std::string requests;
  for (int i = 0; i < kRequests; ++i) requests += get("/");
  client.send(requests);
  std::uint64_t before = 0, now = 0;
  do {
    before = now;
    std::this_thread::sleep_for(milliseconds{50});
    now = server.counters().requests;
  } while (now != before || now == 0);
  EXPECT_LT(now, 100u) << "more than the socket's own buffers hold";
  for (int i = 0; i < 50; ++i) EXPECT_EQ(client.read_answer().body.size(), large.size());
}

// Keeps exchanges open without a response.
class Waiting final : public ExchangeListener {
 public:
  void begin(Exchange& exchange) { exchange.listen(this); }
  void on_writable() override {}
  void on_client_gone() override { ++gone; }
  std::atomic<int> gone{0};
};

TEST(ServerLimits, ADisconnectIsDetectedDuringARequest) {
  using Leave = void (*)(RawClient&);
  const std::array<Leave, 2> ways = {[](RawClient& client) { client.close(); },
                                     [](RawClient& client) { client.reset(); }};
  for (const Leave leave : ways) {
    Waiting waiting;
    TestServer server{[&](Exchange& exchange) { waiting.begin(exchange); }};
    RawClient client{server.address()};
    client.send(get("/"));
    ASSERT_TRUE(server.wait_until([](const ServerCounters& counters) { return counters.busy == 1; }));
    leave(client);
    EXPECT_TRUE(server.wait_until([](const ServerCounters& counters) { return counters.open == 0; }));
    EXPECT_EQ(waiting.gone, 1);
    EXPECT_EQ(server.counters().clients_gone, 1u);
    EXPECT_EQ(server.counters().busy, 0u);
  }
}

TEST(ServerLimits, AClientThatEndsItsOutputIsAnswered) {
  std::vector<Exchange*> exchanges;
  TestServer server{[&](Exchange& exchange) { exchanges.push_back(&exchange); }};
  RawClient client{server.address()};
  client.send(get("/1") + get("/2"));
  client.end_output();
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(server.wait_until([&](const ServerCounters& counters) {
      return counters.busy == 1 && exchanges.size() == static_cast<std::size_t>(i) + 1;
    }));
    server.run([&](Server&) { answer(*exchanges.back()); });
    EXPECT_EQ(client.read_answer().status, 200);
  }
  EXPECT_EQ(client.read_all(), "");
  EXPECT_EQ(server.counters().clients_gone, 0u);
  EXPECT_TRUE(server.wait_until([](const ServerCounters& counters) { return counters.open == 0; }));
}

TEST(ServerLimits, AClientThatEndsItsOutputReceivesAnInterimResponseBeforeALateAnswer) {
  std::vector<Exchange*> exchanges;
  TestServer server{[&](Exchange& exchange) { exchanges.push_back(&exchange); }};
  RawClient client{server.address()};
  client.send(get("/"));
  client.end_output();
  EXPECT_EQ(client.read_until("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  server.run([&](Server&) { answer(*exchanges.back()); });
  EXPECT_EQ(client.read_answer().status, 200);
}

TEST(ServerLimits, ADisconnectIsDetectedBehindPipelinedRequests) {
  Waiting waiting;
  TestServer server{[&](Exchange& exchange) { waiting.begin(exchange); }};
  RawClient client{server.address()};
  std::string requests;
  for (int i = 0; i < 2000; ++i) requests += get("/0123456789012345678901234567890123456789");
  client.send(requests);
  ASSERT_TRUE(server.wait_until([](const ServerCounters& counters) { return counters.busy == 1; }));
  // Unread input must not wake the loop repeatedly; a spinning loop would use all CPU time.
  const auto cpu_time = [&] {
    timespec time{};
    server.run([&](Server&) { clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time); });
    return std::chrono::seconds{time.tv_sec} + std::chrono::nanoseconds{time.tv_nsec};
  };
  const auto before = cpu_time();
  std::this_thread::sleep_for(milliseconds{200});
  EXPECT_LT(cpu_time() - before, milliseconds{20});
  client.close();
  EXPECT_TRUE(server.wait_until([](const ServerCounters& counters) { return counters.open == 0; }));
  EXPECT_EQ(waiting.gone, 1);
  EXPECT_EQ(server.counters().requests, 1u);
}

TEST(ServerLimits, AStreamEndsWhenItsClientDisconnects) {
  Stream stream;
  TestServer server{[&](Exchange& exchange) { stream.begin(exchange); }};
  RawClient client{server.address(), 8 * 1024};
  client.send(get("/"));
  client.read_until("xxx");
  client.close();
  EXPECT_TRUE(server.wait_until([](const ServerCounters& counters) { return counters.open == 0; }));
  EXPECT_EQ(stream.gone, 1);
  EXPECT_EQ(stream.finished, 0);
}

TEST(ServerLimits, DrainFinishesRequestsAndClosesIdleConnections) {
  std::vector<Exchange*> exchanges;
  TestServer server{[&](Exchange& exchange) {
    if (exchange.head().path() == "/slow") return exchanges.push_back(&exchange);
    answer(exchange);
  }};
  RawClient idle{server.address()}, busy{server.address()}, streaming{server.address()}, begun{server.address()};
  idle.send(get("/"));
  EXPECT_EQ(idle.read_answer().status, 200);
  busy.send(get("/slow"));
  streaming.send(get("/slow"));
  begun.send("GET / HTTP/1.1\r\nHo");
  ASSERT_TRUE(
      server.wait_until([](const ServerCounters& counters) { return counters.busy == 2 && counters.open == 4; }));
  server.run([&](Server&) {
    exchanges[1]->start(200, {});
    exchanges[1]->write("first");
  });
  server.run([](Server& running) { running.drain(); });
  EXPECT_EQ(idle.read_all(), "");
  server.run([&](Server&) {
    answer(*exchanges[0]);
    exchanges[1]->write(" last");
    exchanges[1]->finish();
  });
  begun.send("st: test\r\n\r\n");
  std::string streamed;
  for (RawClient* client : {&busy, &streaming, &begun}) {
    const auto got = client->read_answer();
    EXPECT_TRUE(got.whole);
    if (got.body.starts_with("first"))
      streamed = got.body;
    else
      EXPECT_NE(got.head.find("Connection: close\r\n"), std::string::npos);
    EXPECT_EQ(client->read_all(), "");
    EXPECT_FALSE(client->was_reset());
    client->close();
  }
  EXPECT_EQ(streamed, "first last");
  EXPECT_TRUE(server.wait_until([](const ServerCounters& counters) { return counters.open == 0; }));
}

TEST(ServerLimits, DrainServesARequestInTransit) {
  TestServer server{answer};
  RawClient client{server.address()};
  server.run([&](Server& running) {
    client.send(get("/"));  // The request is in the socket, which may not even be accepted yet.
    running.drain();
  });
  const auto got = client.read_answer();
  EXPECT_EQ(got.status, 200);
  EXPECT_NE(got.head.find("Connection: close\r\n"), std::string::npos);
  EXPECT_EQ(client.read_all(), "");
}

TEST(ServerLimits, ADestroyedServerClosesConnectionsWithoutCallbacks) {
  Waiting waiting;
  Loop loop;
  const auto listening = listen_on(Address{}, false);
  ASSERT_TRUE(listening);
  const Address address = local_address(*listening);
  struct Handler final : ExchangeHandler {
    explicit Handler(Waiting& listener) : waiting{listener} {}
    void on_request(Exchange& exchange) override { waiting.begin(exchange); }
    std::string error_body(int, std::string_view) override { return {}; }
    Waiting& waiting;
  } handler{waiting};
  auto server = std::make_unique<Server>(loop, *listening, handler);
  RawClient client{address};
  client.send(get("/"));
  const auto poll = loop.every(milliseconds{1}, [&] {
    if (server->counters().busy == 1) loop.stop();
  });
  loop.run();
  loop.cancel(poll);
  server.reset();
  client.read_all();
  EXPECT_EQ(waiting.gone, 0);
}

}  // namespace
}  // namespace penstock::net
