#include "net/client.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <string>

#include "net/client_testing.h"

namespace penstock::net {
namespace {

using namespace testing;

core::Duration thread_cpu_time() {
  rusage used{};
  ::getrusage(RUSAGE_THREAD, &used);
  const auto of = [](const timeval& time) {
    return std::chrono::seconds{time.tv_sec} + std::chrono::microseconds{time.tv_usec};
  };
  return of(used.ru_utime) + of(used.ru_stime);
}

// Returns the client's view of one response that the server sends in pieces of the given size.
Recorder answer_of(const std::string& answer, std::size_t piece = 1 << 20, bool raw = false,
                   std::string_view request = kGet) {
  ScriptedServer server{[&](Peer& peer, int) {
    peer.read_request();
    peer.send_in_pieces(answer, piece);
    peer.wait_until_closed();
  }};
  Loop loop;
  Client client{loop};
  Recorder recorder{loop};
  CallOptions options = to(server.address());
  options.raw = raw;
  client.call(options, request, {}, recorder);
  EXPECT_EQ(recorder.heads, 0);
  run(loop);
  return recorder;
}

TEST(Client, SendsARequestAndReceivesTheResponse) {
  std::string seen;
  ScriptedServer server{[&](Peer& peer, int) {
    seen = peer.read_request().value();
    peer.send(kHello);
  }};
  {
    Loop loop;
    Client client{loop};
    Recorder recorder{loop};
    client.call(to(server.address()), "POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\n", "body", recorder);
    run(loop);
    EXPECT_EQ(recorder.status, 200);
    EXPECT_EQ(recorder.body, "hello");
    EXPECT_EQ(recorder.ends, 1);
  }
  EXPECT_EQ(seen, "POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nbody");
}

TEST(Client, ReadsResponsesInPiecesOfAnySize) {
  const std::string head = "HTTP/1.1 201 Created\r\nContent-Type: text/plain\r\n";
  for (const std::size_t piece : {1U, 2U, 7U, 1000U}) {
    const Recorder sized = answer_of(head + "Content-Length: 10\r\n\r\n0123456789", piece);
    EXPECT_EQ(sized.status, 201);
    EXPECT_EQ(sized.content_type, "text/plain");
    EXPECT_EQ(sized.body, "0123456789");
    EXPECT_EQ(sized.ends, 1);
    const Recorder chunked =
        answer_of(head + "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nA\r\n0123456789\r\n0\r\n\r\n", piece);
    EXPECT_EQ(chunked.body, "abc0123456789");
    EXPECT_EQ(chunked.ends, 1);
  }
}

TEST(Client, KeepsTheFramingInRawMode) {
  const std::string body = "3\r\nabc\r\n0\r\n\r\n";
  for (const std::size_t piece : {1U, 5U, 1000U}) {
    const Recorder recorder = answer_of("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + body, piece, true);
    EXPECT_EQ(recorder.body, body);
    EXPECT_EQ(recorder.ends, 1);
  }
}

TEST(Client, SkipsInformationalResponses) {
  for (const std::size_t piece : {1U, 1000U}) {
    const Recorder recorder = answer_of(
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + std::string{kHello}, piece);
    EXPECT_EQ(recorder.heads, 1);
    EXPECT_EQ(recorder.status, 200);
    EXPECT_EQ(recorder.body, "hello");
  }
}

TEST(Client, RecognisesBodylessResponses) {
  EXPECT_EQ(answer_of("HTTP/1.1 204 No Content\r\n\r\n").ends, 1);
  EXPECT_EQ(answer_of("HTTP/1.1 304 Not Modified\r\nContent-Length: 7\r\n\r\n").ends, 1);
  EXPECT_EQ(answer_of("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").ends, 1);
  const Recorder head =
      answer_of("HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n", 1000, false, "HEAD / HTTP/1.1\r\nHost: test\r\n\r\n");
  EXPECT_EQ(head.ends, 1);
  EXPECT_EQ(head.body, "");
}

TEST(Client, ReadsUntilTheConnectionEndsWithoutALength) {
  ScriptedServer server{[&](Peer& peer, int) {
    peer.read_request();
    peer.send_in_pieces("HTTP/1.1 200 OK\r\n\r\nall of it", 8);
  }};
  Loop loop;
  Client client{loop};
  Recorder recorder{loop};
  client.call(to(server.address()), kGet, {}, recorder);
  run(loop);
  EXPECT_EQ(recorder.body, "all of it");
  EXPECT_EQ(recorder.ends, 1);
  EXPECT_EQ(client.open_connections(), 0U);
}

TEST(Client, CarriesLargeBodiesBothWays) {
  const std::string large(8 * 1024 * 1024, 'x');
  std::size_t seen = 0;
  ScriptedServer server{[&](Peer& peer, int) {
    const auto request = peer.read_request().value();
    seen = request.size();
    peer.send("HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(large.size()) + "\r\n\r\n" + large);
  }};
  Loop loop;
  {
    Client client{loop};
    Recorder recorder{loop};
    const std::string head =
        "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: " + std::to_string(large.size()) + "\r\n\r\n";
    client.call(to(server.address()), head, large, recorder);
    run(loop);
    EXPECT_EQ(recorder.ends, 1);
    EXPECT_TRUE(recorder.body == large);
    EXPECT_GT(recorder.pieces, 8 * 15);  // The pieces are not merged into one.
    EXPECT_EQ(seen, head.size() + large.size());
  }
}

TEST(Client, AcceptsAResponseBeforeTheRequestIsSent) {
  const std::string large(64 * 1024 * 1024, 'x');
  ScriptedServer server{[&](Peer& peer, int) {
    peer.read_some();
    peer.send("HTTP/1.1 413 Content Too Large\r\nContent-Length: 3\r\n\r\nno!");
    peer.wait_until_closed();
  }};
  Loop loop;
  Client client{loop};
  Recorder recorder{loop};
  client.call(to(server.address()), "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 67108864\r\n\r\n", large, recorder);
  run(loop);
  EXPECT_EQ(recorder.status, 413);
  EXPECT_EQ(recorder.body, "no!");
  EXPECT_EQ(client.open_connections(), 0U) << "the rest of the request would be taken for the next";
}

TEST(Client, BuffersNothingWhilePaused) {
  constexpr std::size_t kBytes = 16 * 1024 * 1024;
  std::atomic<std::size_t> sent{0};
  ScriptedServer server{[&](Peer& peer, int) {
    peer.read_request();
    peer.send("HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(kBytes) + "\r\n\r\n");
    const std::string piece(64 * 1024, 'x');
    while (sent < kBytes) {
      peer.send(piece);
      sent += piece.size();
    }
  }};
  Loop loop;
  Client client{loop};
  Recorder recorder{loop};
  Call& call = client.call(to(server.address()), kGet, {}, recorder);
  recorder.at_head = [&] { call.pause(); };
  run_for(loop, std::chrono::milliseconds{300});
  EXPECT_EQ(recorder.heads, 1);
  EXPECT_EQ(recorder.ends, 0);
  EXPECT_LE(recorder.body.size(), 64U * 1024);  // The rest of the bytes that were read with the head.
  EXPECT_LT(sent, kBytes) << "the server has to feel it";
  recorder.at_body = [&] {
    call.pause();
    call.resume();
  };
  call.resume();
  run(loop);
  EXPECT_EQ(recorder.ends, 1);
  EXPECT_EQ(recorder.body.size(), kBytes);
}

TEST(Client, ReadsTheRestAfterAPauseAndAClosedServer) {
  for (const bool reset : {false, true}) {
    std::atomic<bool> gone{false};
    ScriptedServer server{[&](Peer& peer, int) {
      peer.read_request();
      peer.send("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nabc");
      std::this_thread::sleep_for(std::chrono::milliseconds{20});
      peer.send("def");
      std::this_thread::sleep_for(std::chrono::milliseconds{20});
      reset ? peer.reset() : peer.close();
      gone = true;
    }};
    Loop loop;
    Client client{loop};
    Recorder recorder{loop};
    Call& call = client.call(to(server.address()), kGet, {}, recorder);
    recorder.at_body = [&] { call.pause(); };
    const core::Duration before = thread_cpu_time();
    run_for(loop, std::chrono::milliseconds{300});
    EXPECT_LT(thread_cpu_time() - before, std::chrono::milliseconds{15}) << "the loop turns without a task";
    EXPECT_TRUE(gone);
    EXPECT_EQ(recorder.body, "abc");
    EXPECT_EQ(recorder.faults, 0);
    recorder.at_body = nullptr;
    call.resume();
    run(loop);
    EXPECT_EQ(recorder.body, "abcdef");
    EXPECT_EQ(recorder.ends, 1);
  }
}

}  // namespace
}  // namespace penstock::net
