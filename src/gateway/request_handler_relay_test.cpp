// What goes through: answers, streams, fields, and what becomes of them when one side stops.
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <future>
#include <thread>

#include "gateway/answer_end.h"
#include "gateway/gateway_testing.h"

namespace penstock::gateway {
namespace {

using namespace std::chrono_literals;

const std::string kStreamed = text_event("one") + text_event("two") + std::string{api::kDoneEvent};

// All that the first read of a connection brings.
std::string first_piece(const net::Address& address, const std::string& request) {
  const int descriptor = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  EXPECT_EQ(::connect(descriptor, static_cast<const sockaddr*>(address.data()), address.length()), 0);
  EXPECT_EQ(::send(descriptor, request.data(), request.size(), MSG_NOSIGNAL), static_cast<ssize_t>(request.size()));
  std::string piece(64 * 1024, '\0');
  const ssize_t got = ::recv(descriptor, piece.data(), piece.size(), 0);
  piece.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  ::close(descriptor);
  return piece;
}

std::string body_of(const std::string& message) { return message.substr(message.find("\r\n\r\n") + 4); }

TEST(Relay, ACompleteAnswerIsRelayedUnchanged) {
  TestReplica replica{answer_well};
  TestGateway gateway{{spec_of(replica, "r1")}};
  const auto answer = ask(gateway, chat_body(), "X-Request-Id: abc-1\r\n");
  EXPECT_EQ(answer.status, 200);
  EXPECT_TRUE(answer.whole);
  EXPECT_EQ(answer.body, body_of(good_answer()));
  EXPECT_EQ(field_in(answer.head, "x-request-id"), "abc-1");
  EXPECT_EQ(field_in(answer.head, "x-penstock-replica"), "r1");
  EXPECT_EQ(field_in(answer.head, "x-penstock-route"), "only");
  const ledger::Entry entry = gateway.closed(1).front();
  EXPECT_EQ(entry.outcome, ledger::Outcome::kCompleted);
  EXPECT_EQ(entry.request_id, "abc-1");
  EXPECT_EQ(entry.prompt_tokens, 12U);
  EXPECT_EQ(entry.cached_tokens, 4U);
  EXPECT_EQ(entry.output_tokens, 3U);
}

TEST(Relay, OneConnectionCarriesManyRequests) {
  TestReplica replica{
      [](Peer& peer, const std::string&, int number) { peer.send(good_answer("answer " + std::to_string(number))); }};
  TestGateway gateway{{spec_of(replica, "r1")}};
  RawClient client{gateway.address()};
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(client.send(chat_request(chat_body())));
    EXPECT_NE(client.read_answer().body.find("answer " + std::to_string(i)), std::string::npos);
  }
}

TEST(Relay, AStreamComesByteForByteHoweverItIsCut) {
  const std::string sent = chunked_head() + chunk(text_event("one")) + chunk(text_event("two")) +
                           chunk(api::kDoneEvent) + std::string{net::kLastChunk};
  for (const std::size_t piece : {1UL, 7UL, 10'000UL}) {
    TestReplica replica{[&](Peer& peer, const std::string&, int) { peer.send_in_pieces(sent, piece); }};
    TestGateway gateway{{spec_of(replica, "r1")}};
    RawClient client{gateway.address()};
    client.send(chat_request(chat_body("hi", kStream)));
    client.read_until("\r\n\r\n");
    EXPECT_EQ(client.read_until(net::kLastChunk), sent.substr(sent.find("\r\n\r\n") + 4)) << piece;
    // The connection is as good as before.
    client.send(chat_request(chat_body("hi", kStream)));
    EXPECT_EQ(client.read_answer().body, kStreamed);
    gateway.end();
  }
}

TEST(Relay, TheUsageOfAStreamIsRequestedAndStrippedForClientsThatDidNotRequestIt) {
  std::string usage, finish;
  api::append_finish_event(finish, kFrame, api::FinishReason::kStop);
  api::append_usage_event(usage, kFrame, {12, 9, 4});
  const std::string done{api::kDoneEvent}, one = text_event("one"), last{net::kLastChunk};
  const std::string plain = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n";
  const std::string whole = one + finish + usage + done, stripped = one + finish + done;
  const std::string answers[] = {
      chunked_head() + chunk(one) + chunk(finish) + chunk(usage) + chunk(done) + last,
      chunked_head() + chunk(whole) + last,
      chunked_head() + chunk(one + finish + usage.substr(0, 30)) + chunk(usage.substr(30) + done) + last,
      plain + "Content-Length: " + std::to_string(whole.size()) + "\r\n\r\n" + whole,
      plain + "\r\n" + whole,
  };
  for (const std::string& bytes : answers)
    for (const std::size_t piece : {1UL, 50UL, 10'000UL}) {
      TestReplica replica{[&](Peer& peer, const std::string&, int) {
        peer.send_in_pieces(bytes, piece);
        peer.cut();
      }};
      TestGateway gateway{{spec_of(replica, "r1")}};
      const auto without = ask(gateway, chat_body("hi", kStream));
      EXPECT_EQ(without.body, stripped) << piece << bytes;
      EXPECT_TRUE(without.whole);
      const auto with = ask(gateway, chat_body("hi", kStream + R"(,"stream_options":{"include_usage":true})"));
      EXPECT_EQ(with.body, whole) << piece << bytes;
      for (const std::string& request : replica.requests())
        EXPECT_NE(request.find(R"("stream_options":{"include_usage":true})"), std::string::npos);
      for (const ledger::Entry& entry : gateway.closed(2)) {
        EXPECT_TRUE(entry.measured);
        EXPECT_EQ(entry.output_tokens, 9U);
      }
      gateway.end();
    }
}

TEST(Relay, AClientThatLeavesAWholeAnswerPaysForIt) {
  TestReplica replica{[](Peer& peer, const std::string&, int) { peer.wait_until_closed(); }};
  TestGateway gateway{{spec_of(replica, "r1")}};
  {
    RawClient client{gateway.address()};
    client.send(chat_request(chat_body(std::string(4000, 'x'))));
    EXPECT_TRUE(gateway.wait_for(R"("open_requests":1)"));
  }
  const ledger::Entry entry = gateway.closed(1).front();
  EXPECT_EQ(entry.outcome, ledger::Outcome::kCancelled);
  EXPECT_GT(entry.prompt_tokens, 500U);
  EXPECT_GT(entry.output_tokens, 0U);
}

TEST(Relay, TheHeadOfAStreamWaitsForItsFirstChunk) {
  TestReplica replica{[](Peer& peer, const std::string&, int) {
    peer.send(chunked_head());
    std::this_thread::sleep_for(50ms);
    peer.send(chunk(text_event("one")) + chunk(api::kDoneEvent) + std::string{net::kLastChunk});
  }};
  TestGateway gateway{{spec_of(replica, "r1")}};
  const std::string piece = first_piece(gateway.address(), chat_request(chat_body("hi", kStream)));
  EXPECT_TRUE(piece.starts_with("HTTP/1.1 200 OK\r\n"));
  EXPECT_NE(piece.find("one"), std::string::npos) << piece;
}

TEST(Relay, AnAnswerThatEndsWithItsConnectionBecomesChunks) {
  TestReplica replica{[](Peer& peer, const std::string&, int) {
    peer.send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n" + kStreamed);
    peer.cut();
  }};
  TestGateway gateway{{spec_of(replica, "r1")}};
  const auto answer = ask(gateway, chat_body("hi", kStream));
  EXPECT_EQ(field_in(answer.head, "transfer-encoding"), "chunked");
  EXPECT_TRUE(answer.whole);
  EXPECT_EQ(answer.body, kStreamed);
}

TEST(Relay, AnHttp10ClientGetsNoChunks) {
  TestReplica replica{[](Peer& peer, const std::string&, int) {
    peer.send(chunked_head() + chunk(text_event("one")) + chunk(text_event("two")) + chunk(api::kDoneEvent) +
              std::string{net::kLastChunk});
  }};
  TestGateway gateway{{spec_of(replica, "r1")}};
  RawClient client{gateway.address()};
  const std::string body = chat_body("hi", kStream);
  client.send("POST /v1/chat/completions HTTP/1.0\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" +
              body);
  const std::string all = client.read_all();
  EXPECT_EQ(all.find("chunked"), std::string::npos);
  EXPECT_EQ(body_of(all), kStreamed);
}

TEST(Relay, AnInterruptedStreamIsInterruptedForTheClient) {
  TestReplica replica{[](Peer& peer, const std::string&, int) {
    peer.send(chunked_head() + chunk(text_event("one")));
    peer.cut();
  }};
  TestGateway gateway{{spec_of(replica, "r1"), spec_of(replica, "r2")}};
  const auto answer = ask(gateway, chat_body("hi", kStream));
  EXPECT_EQ(answer.status, 200);
  EXPECT_TRUE(answer.body.starts_with(text_event("one") + R"(data: {"error":{)")) << answer.body;
  EXPECT_NE(answer.body.find(R"("code":"truncated")"), std::string::npos);
  EXPECT_FALSE(answer.whole);
  EXPECT_EQ(gateway.closed(1).front().outcome, ledger::Outcome::kTruncated);
  EXPECT_EQ(replica.requests().size(), 1U) << "what the client has seen is not repeated";
}

struct End {
  const char* name;
  std::string bytes;
  ledger::Outcome outcome;
  bool whole;              // The client receives a whole HTTP message.
  std::uint32_t failures;  // Of the replica.
};

TEST(Relay, TheEndOfAStreamDecidesAboutItsOutcome) {
  using ledger::Outcome;
  const std::string one = text_event("one"), last{net::kLastChunk};
  std::string finish;
  api::append_finish_event(finish, kFrame, api::FinishReason::kStop);
  const std::string done{api::kDoneEvent};
  const std::string plain = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n";
  const auto with_size = [&](const std::string& body, std::size_t size) {
    return plain + "Content-Length: " + std::to_string(size) + "\r\n\r\n" + body;
  };
  const End ends[] = {
      {"done", chunked_head() + chunk(one) + chunk(done) + last, Outcome::kCompleted, true, 0},
      {"done, and no last chunk", chunked_head() + chunk(one) + chunk(done), Outcome::kCompleted, true, 0},
      {"done, and half of a last chunk", chunked_head() + chunk(one) + chunk(done) + "0\r\n", Outcome::kTruncated,
       false, 1},
      {"error, done, and no last chunk",
       chunked_head() + chunk(one) + chunk("data: {\"error\":{\"message\":\"dead\"}}\n\n" + done), Outcome::kFailed,
       true, 1},
      {"finish reason", chunked_head() + chunk(one) + chunk(finish) + last, Outcome::kCompleted, true, 0},
      {"comment at the end", chunked_head() + chunk(one + finish + ": bye\n\n") + last, Outcome::kCompleted, true, 0},
      {"no end", chunked_head() + chunk(one) + last, Outcome::kTruncated, false, 1},
      {"no end, in one chunk", chunked_head() + chunk(one + one), Outcome::kTruncated, false, 1},
      {"no end, split", chunked_head() + chunk(one) + "0\r", Outcome::kTruncated, false, 1},
      {"no end, with a length", with_size(one, one.size()), Outcome::kTruncated, false, 1},
      {"no end, closed", plain + "\r\n" + one, Outcome::kTruncated, false, 1},
      {"half an event", chunked_head() + chunk(one) + chunk(one.substr(0, 20)) + last, Outcome::kTruncated, false, 1},
      {"half a chunk", chunked_head() + chunk(one) + "ff\r\n" + one, Outcome::kTruncated, false, 1},
      {"wrong length", with_size(one, one.size() + 9), Outcome::kTruncated, false, 1},
      {"no chunk size, noticed before the first byte", chunked_head() + chunk(one) + "zz\r\n", Outcome::kFailed, true,
       1},
      {"not JSON", chunked_head() + chunk(one) + chunk("data: {broken\n\n") + chunk(done) + last, Outcome::kFailed,
       true, 1},
      {"engine error",
       chunked_head() + chunk(one) + chunk("data: {\"error\":{\"message\":\"dead\"}}\n\n" + done) + last,
       Outcome::kFailed, true, 1},
      {"client error",
       chunked_head() + chunk("data: {\"error\":{\"message\":\"long\",\"code\":400}}\n\n" + done) + last,
       Outcome::kRejected, true, 0},
      {"client error after a part of the answer",
       chunked_head() + chunk(one) + chunk("data: {\"error\":{\"message\":\"long\",\"code\":400}}\n\n" + done) + last,
       Outcome::kFailed, true, 0},
      {"half a document", with_length("200 OK", R"({"choices":[)"), Outcome::kTruncated, true, 1},
      {"a document", good_answer(), Outcome::kCompleted, true, 0},
  };
  for (const End& each : ends) {
    TestReplica replica{[&](Peer& peer, const std::string&, int) {
      peer.send(each.bytes);
      peer.cut();
    }};
    TestGateway gateway{{spec_of(replica, "r1")}};
    const auto answer = ask(gateway, chat_body("hi", kStream));
    EXPECT_EQ(answer.whole, each.whole) << each.name << ": " << answer.body;
    EXPECT_EQ(to_string(gateway.closed(1).front().outcome), std::string_view{to_string(each.outcome)}) << each.name;
    EXPECT_TRUE(gateway.wait_for(R"("failures_total":)" + std::to_string(each.failures))) << each.name;
    gateway.end();
  }
}

TEST(Relay, AStreamWithoutAnyEventIsTriedElsewhere) {
  TestReplica empty{
      [](Peer& peer, const std::string&, int) { peer.send(chunked_head() + std::string{net::kLastChunk}); }};
  TestReplica good{[](Peer& peer, const std::string&, int) {
    peer.send(chunked_head() + chunk(kStreamed) + std::string{net::kLastChunk});
  }};
  TestGateway gateway{{spec_of(empty, "r1"), spec_of(good, "r2")}};
  for (int i = 0; i < 40 && empty.requests().empty(); ++i)
    EXPECT_EQ(ask(gateway, chat_body("hi", kStream)).body, kStreamed);
  EXPECT_FALSE(empty.requests().empty());
}

TEST(Relay, AClientThatLeavesAfterTheEndOfAStreamHasAllOfIt) {
  TestReplica replica{[](Peer& peer, const std::string&, int) {
    peer.send(chunked_head() + chunk(kStreamed));
    peer.wait_until_closed();
  }};
  TestGateway gateway{{spec_of(replica, "r1")}};
  {
    RawClient client{gateway.address()};
    client.send(chat_request(chat_body("hi", kStream)));
    client.read_until("[DONE]");
  }
  EXPECT_EQ(gateway.closed(1).front().outcome, ledger::Outcome::kCompleted);
}

TEST(Relay, AClientThatLeavesCancelsItsRequestAtTheReplica) {
  std::promise<void> cancelled;
  TestReplica replica{[&](Peer& peer, const std::string&, int) {
    peer.send(chunked_head() + chunk(text_event("one")));
    peer.wait_until_closed();
    cancelled.set_value();
  }};
  TestGateway gateway{{spec_of(replica, "r1")}};
  {
    RawClient client{gateway.address()};
    client.send(chat_request(chat_body("hi", kStream)));
    client.read_until("one");
  }
  EXPECT_EQ(cancelled.get_future().wait_for(20s), std::future_status::ready);
  const ledger::Entry entry = gateway.closed(1).front();
  EXPECT_EQ(entry.outcome, ledger::Outcome::kCancelled);
  EXPECT_EQ(entry.output_tokens, 2U) << "the replica computed one more";
  EXPECT_TRUE(gateway.wait_for(R"("open_requests":0)"));
}

TEST(Relay, ASlowClientPausesItsReplica) {
  constexpr std::size_t kPieces = 1024, kPiece = 64 * 1024;
  constexpr std::string_view kEnd = "\n\ndata: [DONE]\n\n";
  std::atomic<std::size_t> sent{0};
  TestReplica replica{[&](Peer& peer, const std::string&, int) {
    const std::string piece = chunk(std::string(kPiece, 'x'));
    peer.send(chunked_head());
    for (std::size_t i = 0; i < kPieces; ++i) {
      peer.send(piece);
      ++sent;
    }
    peer.send(chunk(kEnd) + std::string{net::kLastChunk});
  }};
  TestGateway gateway{{spec_of(replica, "r1")}};
  RawClient client{gateway.address(), 16 * 1024};
  client.send(chat_request(chat_body("hi", kStream)));
  client.read_until("\r\n\r\n");
  for (std::size_t before = 0, same = 0; same < 20; before = sent) {
    std::this_thread::sleep_for(10ms);
    same = sent == before ? same + 1 : 0;
  }
  EXPECT_LT(sent, kPieces * 3 / 4) << "the gateway reads what its client does not take";
  std::size_t bytes = 0;
  net::ChunkReader chunks;
  net::ChunkReader::Step step;
  while (step.state == net::ChunkReader::State::kMore) {
    const std::string piece = client.read_until("\n");
    if (piece.empty()) break;
    for (std::string_view rest = piece; !rest.empty() && step.state == net::ChunkReader::State::kMore;) {
      step = chunks.take(rest);
      bytes += step.payload.size();
      rest.remove_prefix(step.consumed);
    }
  }
  EXPECT_EQ(step.state, net::ChunkReader::State::kDone);
  EXPECT_EQ(bytes, kPieces * kPiece + kEnd.size());
}

TEST(Relay, ARequestKeepsItsFieldsButNotItsKey) {
  TestReplica replica{answer_well};
  ReplicaEndpoint spec = spec_of(replica, "r1");
  spec.credentials = std::make_shared<net::Credentials>(
      net::Credentials{"Authorization: Bearer replica-key\r\nX-Team: search\r\n", true, nullptr});
  TestGateway gateway{{spec}};
  ask(gateway, chat_body(), "Authorization: Bearer sk-secret\r\ntraceparent: 00-1-2-01\r\nConnection: keep-alive\r\n");
  const std::string request = replica.requests().front();
  EXPECT_NE(request.find("\r\ntraceparent: 00-1-2-01\r\n"), std::string::npos);
  EXPECT_NE(request.find("\r\nAuthorization: Bearer replica-key\r\nX-Team: search\r\n"), std::string::npos);
  EXPECT_NE(request.find("\r\nHost: " + replica.address().text() + "\r\n"), std::string::npos);
  EXPECT_EQ(request.find("sk-secret"), std::string::npos);
  EXPECT_EQ(body_of(request), chat_body());
}

TEST(Relay, AReplicaMayLiveUnderAPrefixAndSeesTheQuery) {
  TestReplica replica{answer_well};
  ReplicaEndpoint spec = spec_of(replica, "r1");
  spec.url += "/engine";
  TestGateway gateway{{spec}};
  RawClient client{gateway.address()};
  client.send(
      "POST /v1/completions?a=b HTTP/1.1\r\nHost: g\r\nContent-Length: 26\r\n\r\n"
      R"({"model":"m","prompt":"x"})");
  EXPECT_EQ(client.read_answer().status, 200);
  EXPECT_TRUE(replica.requests().front().starts_with("POST /engine/v1/completions?a=b HTTP/1.1\r\n"));
}

TEST(Relay, ARequestIdIsMadeWhereThereIsNoUsableOne) {
  TestReplica replica{answer_well};
  TestGateway gateway{{spec_of(replica, "r1")}};
  const auto without = ask(gateway, chat_body());
  const auto unusable = ask(gateway, chat_body(), "X-Request-Id: two words\r\n");
  const std::string first = field_in(without.head, "x-request-id");
  EXPECT_EQ(first.substr(0, 4), "req-");
  EXPECT_EQ(field_in(unusable.head, "x-request-id").substr(0, 4), "req-");
  EXPECT_NE(field_in(unusable.head, "x-request-id"), first);
  EXPECT_NE(replica.requests().front().find("x-request-id: " + first + "\r\n"), std::string::npos);
}

TEST(Relay, ARefusalHasTheIdOfItsRequest) {
  TestGateway gateway{{}};
  const auto answer = ask(gateway, "{}", "X-Request-Id: abc-1\r\n");
  EXPECT_EQ(answer.status, 400);
  EXPECT_EQ(field_in(answer.head, "x-request-id"), "abc-1");
  EXPECT_NE(answer.body.find(R"("type":"invalid_request_error")"), std::string::npos);
}

TEST(Relay, ATimeBudgetEndsAStreamEarly) {
  TestReplica replica{[](Peer& peer, const std::string&, int) {
    peer.send(chunked_head() + chunk(text_event("one")));
    peer.wait_until_closed();
  }};
  GatewayOptions options = quiet_options();
  options.dispatch.interactive.time_budget = 300ms;
  TestGateway gateway{{spec_of(replica, "r1")}, std::move(options)};
  const auto answer = ask(gateway, chat_body("hi", kStream));
  EXPECT_TRUE(answer.whole);
  EXPECT_TRUE(answer.body.starts_with(text_event("one")));
  std::string end;  // It has id and time of the other events.
  api::append_finish_event(end, kFrame, api::FinishReason::kLength);
  EXPECT_TRUE(answer.body.ends_with(end + std::string{api::kDoneEvent})) << answer.body;
  EXPECT_EQ(gateway.closed(1).front().outcome, ledger::Outcome::kTimedOut);
}

TEST(Relay, ATimeBudgetWaitsForTheEndOfAnEvent) {
  const std::string second = text_event("two");
  TestReplica replica{[&](Peer& peer, const std::string&, int) {
    peer.send(chunked_head() + chunk(text_event("one")) + chunk(second.substr(0, second.size() - 1)));
    std::this_thread::sleep_for(250ms);
    peer.send(chunk(second.substr(second.size() - 1)));
    peer.wait_until_closed();
  }};
  GatewayOptions options = quiet_options();
  options.dispatch.interactive.time_budget = 200ms;
  TestGateway gateway{{spec_of(replica, "r1")}, std::move(options)};
  const auto answer = ask(gateway, chat_body("hi", kStream));
  EXPECT_TRUE(answer.whole);
  const std::string both = text_event("one") + second;
  EXPECT_TRUE(answer.body.starts_with(both)) << answer.body;
  EXPECT_TRUE(answer.body.substr(both.size()).starts_with("data: ")) << answer.body;
  EXPECT_TRUE(answer.body.ends_with(api::kDoneEvent));
}

TEST(Relay, ATimeBudgetCutsAStreamWhoseEventDoesNotEnd) {
  TestReplica replica{[](Peer& peer, const std::string&, int) {
    peer.send(chunked_head() + chunk(text_event("one")) + chunk("data: {\"choices\":"));
    peer.wait_until_closed();
  }};
  GatewayOptions options = quiet_options();
  options.dispatch.interactive.time_budget = 100ms;
  TestGateway gateway{{spec_of(replica, "r1")}, std::move(options)};
  const auto answer = ask(gateway, chat_body("hi", kStream));
  EXPECT_FALSE(answer.whole) << "nothing can follow half an event";
  EXPECT_EQ(gateway.closed(1).front().outcome, ledger::Outcome::kTimedOut);
}

TEST(Relay, ATimeBudgetThatEndsBeforeTheAnswerIsAnError) {
  TestReplica replica{[](Peer& peer, const std::string&, int) { peer.wait_until_closed(); }};
  GatewayOptions options = quiet_options();
  options.dispatch.interactive.time_budget = 100ms;
  TestGateway gateway{{spec_of(replica, "r1")}, std::move(options)};
  const auto answer = ask(gateway, chat_body());
  EXPECT_EQ(answer.status, 504);
  EXPECT_NE(answer.body.find("time_budget_exceeded"), std::string::npos);
}

TEST(Relay, UnderATimeBudgetAStreamIsTheSame) {
  TestReplica replica{[](Peer& peer, const std::string&, int) {
    peer.send_in_pieces(chunked_head() + chunk(text_event("one") + text_event("two")) + chunk(api::kDoneEvent) +
                            std::string{net::kLastChunk},
                        11);
  }};
  GatewayOptions options = quiet_options();
  options.dispatch.interactive.time_budget = 60s;
  TestGateway gateway{{spec_of(replica, "r1")}, std::move(options)};
  const auto answer = ask(gateway, chat_body("hi", kStream));
  EXPECT_TRUE(answer.whole);
  EXPECT_EQ(answer.body, kStreamed);
  EXPECT_EQ(gateway.closed(1).front().output_tokens, 2U);
}

TEST(Relay, AReplicasClientErrorIsRelayed) {
  const std::string complaint = R"({"error":{"message":"no such thing"}})";
  TestReplica replica{
      [&](Peer& peer, const std::string&, int) { peer.send(with_length("400 Bad Request", complaint)); }};
  TestGateway gateway{{spec_of(replica, "r1"), spec_of(replica, "r2")}};
  const auto answer = ask(gateway, chat_body());
  EXPECT_EQ(answer.status, 400);
  EXPECT_EQ(answer.body, complaint);
  EXPECT_EQ(replica.requests().size(), 1U);
  EXPECT_EQ(gateway.closed(1).front().outcome, ledger::Outcome::kRejected);
}

TEST(Relay, OnlyAnInvalidRequestIsRejected) {
  for (const int status : {400, 404, 413, 422, 501, 505}) EXPECT_TRUE(is_rejection(status)) << status;
  for (const int status : {200, 401, 403, 408, 429, 500, 502, 503, 504}) EXPECT_FALSE(is_rejection(status)) << status;
}

}  // namespace
}  // namespace penstock::gateway
