// Requests and responses over real sockets.
#include "net/server.h"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "net/server_testing.h"
#include "net/tls.h"
#include "net/tls_testing.h"

namespace penstock::net {
namespace {

using testing::get;
using testing::post;
using testing::RawClient;
using testing::TestServer;

// Returns the method, the target and the body of the request.
void echo(Exchange& exchange) {
  const std::string text = std::string{exchange.head().method} + " " + std::string{exchange.head().target} + " " +
                           std::string{exchange.body()};
  const std::array<Field, 1> fields = {Field{"Content-Type", "text/plain"}};
  exchange.respond(200, fields, text);
}

TEST(Server, RespondsWithLengthDateAndHandlerFields) {
  TestServer server{echo};
  RawClient client{server.address()};
  client.send(post("/a?b=c", "hello"));
  const auto answer = client.read_answer();
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.body, "POST /a?b=c hello");
  EXPECT_TRUE(answer.head.starts_with("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nDate: "));
  EXPECT_NE(answer.head.find(" GMT\r\nContent-Length: 17\r\n\r\n"), std::string::npos);
  EXPECT_EQ(answer.head.find("Connection"), std::string::npos);
}

TEST(Server, KeepsTheDateOfARelayedAnswer) {
  constexpr std::array kFields = {Field{"date", "Mon, 01 Jan 2024 00:00:00 GMT"}};
  for (const bool streams : {false, true}) {
    TestServer server{[&](Exchange& exchange) {
      if (!streams) return exchange.respond(200, kFields, "x");
      exchange.start(200, kFields);
      exchange.write("x");
      exchange.finish();
    }};
    RawClient client{server.address()};
    client.send(get("/"));
    const std::string head = client.read_answer().head;
    EXPECT_NE(head.find("date: Mon, 01 Jan 2024 00:00:00 GMT\r\n"), std::string::npos) << head;
    EXPECT_EQ(head.find("Date: "), std::string::npos) << head;
  }
}

TEST(Server, KeepsTheConnectionAlive) {
  TestServer server{echo};
  RawClient client{server.address()};
  for (int i = 0; i < 50; ++i) {
    client.send(get("/" + std::to_string(i)));
    EXPECT_EQ(client.read_answer().body, "GET /" + std::to_string(i) + " ");
  }
  EXPECT_EQ(server.counters().accepted, 1u);
  EXPECT_EQ(server.counters().requests, 50u);
  EXPECT_EQ(server.counters().busy, 0u);
}

TEST(Server, ClosesOnRequest) {
  TestServer server{echo};
  RawClient client{server.address()};
  client.send(get("/", "Connection: close\r\n"));
  EXPECT_NE(client.read_all().find("Connection: close\r\n"), std::string::npos);
  EXPECT_FALSE(client.was_reset());
  EXPECT_TRUE(server.wait_until([](const ServerCounters& counters) { return counters.open == 0; }));
}

TEST(Server, AnswersPipelinedRequestsInOrder) {
  TestServer server{echo};
  RawClient client{server.address()};
  std::string requests;
  for (int i = 0; i < 100; ++i)
    requests += post("/" + std::to_string(i), std::string(static_cast<std::size_t>(i), 'x'));
  client.send(requests);
  for (int i = 0; i < 100; ++i)
    EXPECT_EQ(client.read_answer().body,
              "POST /" + std::to_string(i) + " " + std::string(static_cast<std::size_t>(i), 'x'));
}

TEST(Server, AnswersPipelinedRequestsInOrderWithASlowHandler) {
  TestServer* running = nullptr;
  TestServer server{[&](Exchange& exchange) { running->loop().post([&exchange] { echo(exchange); }); }};
  running = &server;
  RawClient client{server.address()};
  std::string requests;
  for (int i = 0; i < 3000; ++i) requests += get("/" + std::to_string(i));  // More than the server buffers.
  std::thread sender{[&] { client.send(requests); }};
  for (int i = 0; i < 3000; ++i) ASSERT_EQ(client.read_answer().body, "GET /" + std::to_string(i) + " ");
  sender.join();
}

TEST(Server, TakesRequestsInPiecesOfAnySize) {
  TestServer server{echo};
  const std::string request = post("/pieces", "the body") + get("/next");
  for (std::size_t size = 1; size < request.size(); size += 7) {
    RawClient client{server.address()};
    for (std::size_t at = 0; at < request.size(); at += size) {
      client.send(request.substr(at, size));
      std::this_thread::sleep_for(std::chrono::microseconds{100});
    }
    EXPECT_EQ(client.read_answer().body, "POST /pieces the body");
    EXPECT_EQ(client.read_answer().body, "GET /next ");
  }
}

TEST(Server, ReadsChunkedBodies) {
  TestServer server{echo};
  RawClient client{server.address()};
  client.send("POST / HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n");
  client.send("7;name=value\r\n, world\r\n0\r\nTrailer: skipped\r\n\r\n" + get("/next"));
  EXPECT_EQ(client.read_answer().body, "POST / hello, world");
  EXPECT_EQ(client.read_answer().body, "GET /next ");
}

TEST(Server, ATakenBodyLeavesNoEarlierContent) {
  Body taken;
  ASSERT_TRUE(taken.append("what was there before"));
  TestServer server{[&](Exchange& exchange) {
    exchange.take_body(taken);
    const std::string left{exchange.body()};
    exchange.respond(200, {}, std::string{taken.view()} + "|" + left);
  }};
  RawClient client{server.address()};
  client.send(post("/", std::string(2000, 'x')) + post("/", "short") + get("/none"));
  EXPECT_EQ(client.read_answer().body, std::string(2000, 'x') + "|");
  EXPECT_EQ(client.read_answer().body, "short|");
  EXPECT_EQ(client.read_answer().body, "|");
}

TEST(Server, ReadsLargeBodies) {
  ServerLimits limits;
  limits.body_bytes = 10'000'000;
  TestServer server{[](Exchange& exchange) { exchange.respond(200, {}, std::string{exchange.body()}); }, limits};
  for (const std::size_t size : {65'000u, 131'072u, 1'000'000u, 9'000'001u}) {
    RawClient client{server.address()};
    std::string body(size, '\0');
    for (std::size_t i = 0; i < size; ++i) body[i] = static_cast<char>('a' + i % 23);
    std::thread sender{[&] { client.send(post("/", body) + get("/next")); }};
    const auto answer = client.read_answer();
    EXPECT_TRUE(answer.body == body) << size;
    EXPECT_EQ(client.read_answer().status, 200);
    sender.join();
  }
}

TEST(Server, AnswersExpectContinue) {
  TestServer server{echo};
  RawClient client{server.address()};
  client.send("POST / HTTP/1.1\r\nHost: test\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
  EXPECT_EQ(client.read_answer().status, 100);
  client.send("ok");
  EXPECT_EQ(client.read_answer().body, "POST / ok");
}

TEST(Server, SendsNoBodyToHead) {
  TestServer server{[](Exchange& exchange) {
    if (exchange.head().path() == "/whole") return exchange.respond(200, {}, "12345");
    exchange.start(200, {});
    exchange.write("12345");
    exchange.finish();
  }};
  RawClient client{server.address()};
  client.send("HEAD /whole HTTP/1.1\r\nHost: test\r\n\r\nHEAD /stream HTTP/1.1\r\nHost: test\r\n\r\n" +
              get("/whole", "Connection: close\r\n"));
  EXPECT_NE(client.read_answer(true).head.find("Content-Length: 5\r\n"), std::string::npos);
  EXPECT_NE(client.read_answer(true).head.find("Transfer-Encoding: chunked\r\n"), std::string::npos);
  EXPECT_EQ(client.read_answer().body, "12345");
  EXPECT_EQ(client.read_all(), "");
}

TEST(Server, SendsNoBodyForBodylessStatuses) {
  TestServer server{[](Exchange& exchange) { exchange.respond(204, {}, "ignored"); }};
  RawClient client{server.address()};
  client.send(get("/", "Connection: close\r\n"));
  const std::string all = client.read_all();
  EXPECT_EQ(all.find("Content-Length"), std::string::npos);
  EXPECT_TRUE(all.ends_with("\r\n\r\n"));
}

TEST(Server, StreamsInChunksAndKeepsTheConnection) {
  TestServer server{[](Exchange& exchange) {
    exchange.start(200, {});
    EXPECT_TRUE(exchange.write("one"));
    EXPECT_TRUE(exchange.write(""));
    EXPECT_TRUE(exchange.write("sixteen letters!"));
    exchange.finish();
  }};
  RawClient client{server.address()};
  client.send(get("/"));
  const std::string head = client.read_until("\r\n\r\n");
  EXPECT_NE(head.find("Transfer-Encoding: chunked\r\n"), std::string::npos);
  EXPECT_EQ(client.read_until("0\r\n\r\n"), "3\r\none\r\n10\r\nsixteen letters!\r\n0\r\n\r\n");
  client.send(get("/"));
  EXPECT_EQ(client.read_answer().body, "onesixteen letters!");
}

TEST(Server, StreamsWithALength) {
  TestServer server{[](Exchange& exchange) {
    exchange.start(200, {}, 6);
    exchange.flush();
    exchange.write("123");
    exchange.write("456 and unannounced bytes");
    exchange.finish();
  }};
  RawClient client{server.address()};
  client.send(get("/") + get("/"));
  EXPECT_EQ(client.read_answer().body, "123456");
  EXPECT_EQ(client.read_answer().body, "123456");
}

TEST(Server, ClosesAResponseShorterThanItsLength) {
  TestServer server{[](Exchange& exchange) {
    exchange.start(200, {}, 6);
    exchange.write("123");
    exchange.finish();
  }};
  RawClient client{server.address()};
  client.send(get("/"));
  const auto answer = client.read_answer();
  EXPECT_EQ(answer.body, "123");
  EXPECT_FALSE(answer.whole);
}

TEST(Server, AbortLeavesADetectablyIncompleteResponse) {
  TestServer server{[](Exchange& exchange) {
    exchange.start(200, {});
    exchange.write("begun");
    exchange.abort();
  }};
  RawClient client{server.address()};
  client.send(get("/"));
  const auto answer = client.read_answer();
  EXPECT_EQ(answer.body, "begun");
  EXPECT_FALSE(answer.whole);
}

TEST(Server, ClosesAfterAStreamToHttp10) {
  TestServer server{[](Exchange& exchange) {
    exchange.start(200, {});
    exchange.write("one");
    exchange.write("two");
    exchange.finish();
  }};
  RawClient client{server.address()};
  client.send("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  const std::string all = client.read_all();
  EXPECT_EQ(all.find("chunked"), std::string::npos);
  EXPECT_NE(all.find("Connection: close\r\n"), std::string::npos);
  EXPECT_TRUE(all.ends_with("\r\n\r\nonetwo"));
}

TEST(Server, KeepsHttp10ConnectionsOnRequestOnly) {
  TestServer server{echo};
  RawClient keeping{server.address()};
  keeping.send("GET /1 HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n");
  EXPECT_NE(keeping.read_answer().head.find("Connection: keep-alive\r\n"), std::string::npos);
  keeping.send("GET /2 HTTP/1.0\r\n\r\n");
  EXPECT_TRUE(keeping.read_all().ends_with("GET /2 "));
}

TEST(Server, ResetsAnAbortedStreamToHttp10) {
  TestServer server{[](Exchange& exchange) {
    exchange.start(200, {});
    exchange.write("begun");
    exchange.abort();
  }};
  RawClient client{server.address()};
  client.send("GET / HTTP/1.0\r\n\r\n");
  client.read_all();
  EXPECT_TRUE(client.was_reset());
}

constexpr std::string_view kRawHead = "HTTP/1.1 200 OK\r\nX-Kept: yes\r\nTransfer-Encoding: chunked\r\n\r\n";

void relay(Exchange& exchange) {
  exchange.start_raw(kRawHead, false);
  exchange.write_raw("3\r\none\r");
  exchange.write_raw("\n3\r\ntwo\r\n0\r\n\r\n");
  exchange.finish();
}

TEST(Server, PassesRawResponsesUnchanged) {
  TestServer server{relay};
  RawClient client{server.address()};
  client.send(get("/") + get("/", "Connection: close\r\n"));
  EXPECT_EQ(client.read_until("\r\n\r\n"), kRawHead);
  EXPECT_EQ(client.read_until("0\r\n\r\n"), "3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n");
  EXPECT_NE(client.read_until("\r\n\r\n").find("Connection: close\r\n"), std::string::npos);
  EXPECT_EQ(client.read_all(), "3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n");
}

TEST(Server, RemovesChunkFramingForHttp10) {
  TestServer server{relay};
  RawClient client{server.address()};
  client.send("GET / HTTP/1.0\r\n\r\n");
  const std::string all = client.read_all();
  EXPECT_EQ(all, "HTTP/1.1 200 OK\r\nX-Kept: yes\r\nConnection: close\r\n\r\nonetwo");
}

TEST(Server, RawResponsesWithoutALengthCloseTheConnection) {
  TestServer server{[](Exchange& exchange) {
    exchange.start_raw("HTTP/1.1 200 OK\r\n\r\n", true);
    exchange.write_raw("until the end");
    exchange.finish();
  }};
  RawClient client{server.address()};
  client.send(get("/"));
  EXPECT_EQ(client.read_all(), "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nuntil the end");
}

TEST(Server, FieldValuesCannotInjectLines) {
  TestServer server{[](Exchange& exchange) {
    const std::array<Field, 1> fields = {Field{"X-Echo", "a\r\nSet-Cookie: b"}};
    exchange.respond(200, fields, "");
  }};
  RawClient client{server.address()};
  client.send(get("/"));
  EXPECT_NE(client.read_answer().head.find("X-Echo: a  Set-Cookie: b\r\n"), std::string::npos);
}

TEST(Server, ReportsThePeerAddress) {
  TestServer server{[](Exchange& exchange) { exchange.respond(200, {}, exchange.peer()); }};
  RawClient client{server.address()};
  client.send(get("/"));
  EXPECT_TRUE(client.read_answer().body.starts_with("127.0.0.1:"));
}

TEST(Server, ServesManyConnectionsAtOnce) {
  TestServer server{echo};
  std::vector<std::unique_ptr<RawClient>> clients;
  for (int i = 0; i < 400; ++i) clients.push_back(std::make_unique<RawClient>(server.address()));
  for (int round = 0; round < 3; ++round) {
    for (auto& client : clients) client->send(get("/"));
    for (auto& client : clients) EXPECT_EQ(client->read_answer().body, "GET / ");
  }
  EXPECT_EQ(server.counters().open, 400u);
  clients.clear();
  EXPECT_TRUE(server.wait_until([](const ServerCounters& counters) { return counters.open == 0; }));
}

TEST(Server, ServesTls) {
  const testing::TestCertificate certificate;
  TestServer server{[](Exchange& exchange) {
                      const std::string body{exchange.body()};
                      exchange.start(200, {});
                      exchange.write(body);
                      exchange.finish();
                    },
                    {},
                    certificate.server()};
  const int descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const Address& address = server.address();
  ASSERT_EQ(connect(descriptor, static_cast<const sockaddr*>(address.data()), address.length()), 0);
  Transport client{descriptor, certificate.client(), "localhost"};
  const std::string body(300'000, 'x');
  const std::string requests = post("/", body) + post("/", "second");
  for (std::string_view left = requests; !left.empty();) {
    const auto sent = client.write(left);
    ASSERT_FALSE(sent.failed || sent.closed);
    left.remove_prefix(sent.bytes);
  }
  std::string got;
  while (got.find("second") == std::string::npos) {
    std::array<char, 16 * 1024> piece;
    const auto read = client.read(piece.data(), piece.size());
    ASSERT_FALSE(read.failed || read.closed);
    got.append(piece.data(), read.bytes);
  }
  EXPECT_NE(got.find("493e0\r\n" + body + "\r\n0\r\n\r\n"), std::string::npos);
}

}  // namespace
}  // namespace penstock::net
