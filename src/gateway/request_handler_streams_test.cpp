// Where a stream begins and ends for its client: its first content, and the ends of all of its choices.
#include <future>
#include <thread>

#include "gateway/gateway_testing.h"
#include "net/memory_budget.h"

namespace penstock::gateway {
namespace {

using namespace std::chrono_literals;

TEST(StreamRelay, TheBeginningOfAStreamIsRelayedWithItsFirstContent) {
  std::string first, usage;
  api::append_first_event(first, kFrame);
  api::append_usage_event(usage, kFrame, {12, 9, 4});
  const std::string ping = ": ping\n\n", one = text_event("one"), done{api::kDoneEvent};
  const std::string bytes = chunked_head() + chunk(ping) + chunk(first) + chunk(one) + chunk(usage) + chunk(done) +
                            std::string{net::kLastChunk};
  for (const bool limited : {false, true})
    for (const std::size_t piece : {1UL, 50UL, 10'000UL}) {
      TestReplica replica{[&](Peer& peer, const std::string&, int) { peer.send_in_pieces(bytes, piece); }};
      TestGateway gateway{{spec_of(replica, "r1")}};
      const std::string_view budget = limited ? "X-Time-Budget: 60s\r\n" : "";
      EXPECT_EQ(ask(gateway, chat_body("hi", kStream), budget).body, ping + first + one + done) << piece;
      const std::string asks_for_usage = kStream + R"(,"stream_options":{"include_usage":true})";
      EXPECT_EQ(ask(gateway, chat_body("hi", asks_for_usage), budget).body, ping + first + one + usage + done) << piece;
      for (const ledger::Entry& entry : gateway.closed(2)) EXPECT_EQ(entry.output_tokens, 9U);
      gateway.end();
    }
}

TEST(StreamRelay, TheUsageIsStrippedWhereverAReadEnds) {
  std::string finish, usage;
  api::append_finish_event(finish, kFrame, api::FinishReason::kStop);
  api::append_usage_event(usage, kFrame, {12, 9, 4});
  const std::string one = text_event("one"), done{api::kDoneEvent}, whole = one + finish + usage + done;
  const std::string plain = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n";
  const std::string answers[] = {
      chunked_head() + chunk(one) + chunk(finish) + chunk(usage) + chunk(done) + std::string{net::kLastChunk},
      plain + "Content-Length: " + std::to_string(whole.size()) + "\r\n\r\n" + whole,
  };
  for (const std::string& bytes : answers) {
    const std::size_t body_at = bytes.find("\r\n\r\n") + 4;
    TestReplica replica{[&](Peer& peer, const std::string&, int number) {
      const std::size_t cut = body_at + static_cast<std::size_t>(number);
      peer.send(bytes.substr(0, cut));
      std::this_thread::sleep_for(1ms);
      peer.send(bytes.substr(cut));
    }};
    TestGateway gateway{{spec_of(replica, "r1")}};
    for (std::size_t cut = body_at; cut < bytes.size(); ++cut) {
      const auto answer = ask(gateway, chat_body("hi", kStream));
      EXPECT_EQ(answer.body, one + finish + done) << bytes.substr(0, cut);
      EXPECT_TRUE(answer.whole);
    }
    gateway.end();
  }
}

TEST(StreamRelay, NothingIsHeldBackFromTheFirstContentOn) {
  std::string first;
  api::append_first_event(first, kFrame);
  const std::string call = R"(data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0}]}}]})"
                           "\n\n";
  const std::string ids = R"(data: {"choices":[{"index":0,"text":"","token_ids":[5]}]})"
                          "\n\n";
  std::string finish;
  api::append_finish_event(finish, kFrame, api::FinishReason::kStop);
  for (const std::string& event : {text_event("one"), call, ids, finish, std::string{api::kDoneEvent},
                                   std::string{"data: {\"another\":\"protocol\"}\n\n"}}) {
    TestReplica replica{[&](Peer& peer, const std::string&, int) {
      peer.send(chunked_head() + chunk(first));
      std::this_thread::sleep_for(5ms);
      peer.send(chunk(event));
      peer.wait_until_closed();
    }};
    TestGateway gateway{{spec_of(replica, "r1")}};
    {
      RawClient client{gateway.address()};
      client.send(chat_request(chat_body("hi", kStream)));
      EXPECT_TRUE(client.read_until(event).ends_with(event)) << event;
    }
    gateway.end();
  }
}

TEST(StreamRelay, ALongBeginningIsRelayed) {
  const std::string pings = chunk(": ping\n\n" + std::string(net::kUncountedBytesMax, ':') + "\n\n: last\n\n");
  TestReplica replica{[&](Peer& peer, const std::string&, int) {
    peer.send(chunked_head() + pings);
    peer.wait_until_closed();
  }};
  TestGateway gateway{{spec_of(replica, "r1")}};
  {
    RawClient client{gateway.address()};
    client.send(chat_request(chat_body("hi", kStream)));
    EXPECT_NE(client.read_until(": last\n\n").find("200 OK"), std::string::npos);
  }
  EXPECT_EQ(gateway.closed(1).front().outcome, ledger::Outcome::kCancelled);
}

TEST(StreamRelay, AClientThatLeavesBeforeTheFirstContentCancelsItsRequest) {
  std::promise<void> cancelled;
  TestReplica replica{[&](Peer& peer, const std::string&, int) {
    peer.send(chunked_head() + chunk(": ping\n\n"));
    peer.wait_until_closed();
    cancelled.set_value();
  }};
  TestGateway gateway{{spec_of(replica, "r1"), spec_of(replica, "r2")}};
  {
    RawClient client{gateway.address()};
    client.send(chat_request(chat_body("hi", kStream)));
    EXPECT_TRUE(gateway.wait_for(R"("open_requests":1)"));
  }
  EXPECT_EQ(cancelled.get_future().wait_for(20s), std::future_status::ready);
  EXPECT_EQ(gateway.closed(1).front().outcome, ledger::Outcome::kCancelled);
  EXPECT_EQ(replica.requests().size(), 1U);
}

std::string event_of(int choice, std::string_view inner) {
  return R"(data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":)" +
         std::to_string(choice) + "," + std::string{inner} + "}]}\n\n";
}

TEST(StreamRelay, AStreamOfSeveralChoicesIsWholeWithTheEndOfEach) {
  const std::string texts = event_of(0, R"("delta":{"content":"a"})") + event_of(1, R"("delta":{"content":"b"})");
  const std::string first = event_of(0, R"("delta":{},"finish_reason":"stop")");
  const std::string second = event_of(1, R"("delta":{},"finish_reason":"stop")");
  for (const auto& [events, whole] :
       std::vector<std::pair<std::string, bool>>{{texts + first, false},
                                                 {texts + first + first, false},
                                                 {texts + first + second, true},
                                                 {texts + second + first, true},
                                                 {texts + std::string{api::kDoneEvent}, true}}) {
    TestReplica replica{[&](Peer& peer, const std::string&, int) {
      peer.send(chunked_head() + chunk(events) + std::string{net::kLastChunk});
    }};
    TestGateway gateway{{spec_of(replica, "r1")}};
    EXPECT_EQ(ask(gateway, chat_body("hi", kStream + R"(,"n":2)")).whole, whole) << events;
    EXPECT_EQ(gateway.closed(1).front().outcome, whole ? ledger::Outcome::kCompleted : ledger::Outcome::kTruncated);
    gateway.end();
  }
}

TEST(StreamRelay, ATimeBudgetEndsEachOpenChoice) {
  const std::string sent = event_of(0, R"("delta":{"content":"a"})") + event_of(1, R"("delta":{"content":"b"})") +
                           event_of(1, R"("delta":{},"finish_reason":"stop")");
  TestReplica replica{[&](Peer& peer, const std::string&, int) {
    peer.send(chunked_head() + chunk(sent));
    peer.wait_until_closed();
  }};
  GatewayOptions options = quiet_options();
  options.dispatch.interactive.time_budget = 300ms;
  TestGateway gateway{{spec_of(replica, "r1")}, std::move(options)};
  const auto answer = ask(gateway, chat_body("hi", kStream + R"(,"n":3)"));
  EXPECT_TRUE(answer.whole);
  std::string end;
  for (const std::uint32_t choice : {0U, 2U}) api::append_finish_event(end, kFrame, api::FinishReason::kLength, choice);
  EXPECT_EQ(answer.body, sent + end + std::string{api::kDoneEvent});
}

TEST(StreamRelay, ATimeBudgetThatEndsBeforeTheFirstContentIsAnError) {
  TestReplica replica{[](Peer& peer, const std::string&, int) {
    peer.send(chunked_head() + chunk(": ping\n\n"));
    peer.wait_until_closed();
  }};
  GatewayOptions options = quiet_options();
  options.dispatch.interactive.time_budget = 100ms;
  TestGateway gateway{{spec_of(replica, "r1")}, std::move(options)};
  EXPECT_EQ(ask(gateway, chat_body("hi", kStream)).status, 504);
}

}  // namespace
}  // namespace penstock::gateway
