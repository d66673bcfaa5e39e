// Time budgets of clients, and answers that are collected so that a budget can cut them.
#include <nlohmann/json.hpp>

#include "api/answer_collector.h"
#include "gateway/gateway_testing.h"

namespace penstock::gateway {
namespace {

using namespace std::chrono_literals;
using Json = nlohmann::json;

const std::string kBudget = "X-Time-Budget: 60s\r\n";
const std::string kShortBudget = "X-Time-Budget: 300ms\r\n";

std::string finish() {
  std::string events;
  api::append_finish_event(events, kFrame, api::FinishReason::kStop);
  api::append_usage_event(events, kFrame, {12, 2, 4});
  return events.append(api::kDoneEvent);
}
TestReplica::Script stream_of(std::string events) {
  return [events = std::move(events)](Peer& peer, const std::string&, int) {
    peer.send(chunked_head() + chunk(events) + std::string{net::kLastChunk});
  };
}
std::string words() { return text_event("one") + text_event("two"); }

TEST(TimeBudget, ACompleteAnswerIsUnchanged) {
  TestReplica replica{stream_of(words() + finish())};
  TestGateway gateway{{spec_of(replica, "r1")}};
  const auto answer = ask(gateway, chat_body(), kBudget);
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.body, api::whole_answer(kFrame, "onetwo", api::FinishReason::kStop, {12, 2, 4}));
  EXPECT_EQ(field_in(answer.head, "content-type"), "application/json");
  EXPECT_EQ(field_in(answer.head, "x-penstock-replica"), "r1");
  const std::string asked = replica.requests().at(0);
  EXPECT_NE(asked.find(R"("stream":true,"stream_options":{"include_usage":true})"), std::string::npos) << asked;
  const ledger::Entry entry = gateway.closed(1).at(0);
  EXPECT_EQ(entry.outcome, ledger::Outcome::kCompleted);
  EXPECT_TRUE(entry.measured);
  EXPECT_EQ(entry.cached_tokens, 4U);
  gateway.end();
}

TEST(TimeBudget, AnAnswerHasOneDate) {
  TestReplica replica{[](Peer& peer, const std::string&, int) {
    peer.send(
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nDate: Mon, 01 Jan 2024 00:00:00 GMT\r\n"
        "Transfer-Encoding: chunked\r\n\r\n" +
        chunk(words() + finish()) + std::string{net::kLastChunk});
  }};
  TestGateway gateway{{spec_of(replica, "r1")}};
  const auto dates_in = [](const std::string& head) {
    std::size_t dates = 0;
    for (std::size_t at = head.find("\r\nDate: "); at != std::string::npos; at = head.find("\r\nDate: ", at + 1))
      ++dates;
    return dates;
  };
  for (const std::string& fields : {kBudget, std::string{}})
    EXPECT_EQ(dates_in(ask(gateway, chat_body("hi", kStream), fields).head), 1U) << fields;
  EXPECT_EQ(dates_in(ask(gateway, chat_body(), kBudget).head), 1U);
  RawClient client{gateway.address()};
  const std::string body = chat_body("hi", kStream);
  client.send("POST /v1/chat/completions HTTP/1.0\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" +
              body);
  EXPECT_EQ(dates_in(client.read_all()), 1U);
  gateway.end();
}

TEST(TimeBudget, AtItsEndTheClientGetsThePartialAnswer) {
  TestReplica replica{[](Peer& peer, const std::string&, int) {
    peer.send(chunked_head() + chunk(words()));
    peer.wait_until_closed();
  }};
  TestGateway gateway{{spec_of(replica, "r1")}};
  const auto answer = ask(gateway, chat_body(std::string(400, 'a')), kShortBudget);
  EXPECT_EQ(answer.status, 200);
  const Json made = Json::parse(answer.body);
  EXPECT_EQ(made["choices"][0]["message"]["content"], "onetwo");
  EXPECT_EQ(made["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(made["usage"]["completion_tokens"], 2);
  EXPECT_GE(made["usage"]["prompt_tokens"], 100);
  const ledger::Entry entry = gateway.closed(1).at(0);
  EXPECT_EQ(entry.outcome, ledger::Outcome::kTimedOut);
  EXPECT_EQ(entry.output_tokens, 3U) << "the replica computed one more";
  gateway.end();
}

TEST(TimeBudget, WithoutATokenTheRequestTimesOut) {
  TestReplica replica{[](Peer& peer, const std::string&, int) {
    peer.send(chunked_head() + chunk(": soon\n\n"));
    peer.wait_until_closed();
  }};
  TestGateway gateway{{spec_of(replica, "r1")}};
  EXPECT_EQ(ask(gateway, chat_body(), kShortBudget).status, 504);
  gateway.end();
}

TEST(TimeBudget, AClientMayShortenItsClassesAndNotLengthenIt) {
  TestReplica replica{[](Peer& peer, const std::string&, int) { peer.wait_until_closed(); }};
  GatewayOptions options = quiet_options();
  options.dispatch.interactive.time_budget = 100ms;
  TestGateway gateway{{spec_of(replica, "r1")}, options};
  EXPECT_EQ(ask(gateway, chat_body(), "X-Time-Budget: 1m\r\n").status, 504) << "before the test's timeout";
  gateway.end();
  options.dispatch.interactive.time_budget = 1h;
  TestGateway endpoint{{spec_of(replica, "r1")}, options};
  EXPECT_EQ(ask(endpoint, chat_body(), kShortBudget).status, 504);
  endpoint.end();
}

TEST(TimeBudget, AnInvalidTimeIsRefused) {
  TestReplica replica{answer_well};
  TestGateway gateway{{spec_of(replica, "r1")}};
  const auto answer = ask(gateway, chat_body(), "X-Time-Budget: soon\r\n");
  EXPECT_EQ(answer.status, 400);
  EXPECT_NE(answer.body.find("invalid_time_budget"), std::string::npos);
  EXPECT_TRUE(replica.requests().empty());
  gateway.end();
}

TEST(TimeBudget, RequestsThatCannotBeCollectedAreSentUnchanged) {
  TestReplica replica{answer_well};
  TestGateway gateway{{spec_of(replica, "r1")}};
  const std::string body = chat_body("hi", R"(,"logprobs":true)");
  EXPECT_EQ(ask(gateway, body, kBudget).status, 200);
  EXPECT_TRUE(replica.requests().at(0).ends_with(body));
  gateway.end();
}

TEST(TimeBudget, AReplicaThatDoesNotStreamIsPassedOn) {
  TestReplica replica{answer_well};
  TestGateway gateway{{spec_of(replica, "r1")}};
  const auto answer = ask(gateway, chat_body(), kBudget);
  EXPECT_EQ(answer.status, 200);
  EXPECT_NE(answer.body.find("hello"), std::string::npos);
  EXPECT_TRUE(gateway.closed(1).at(0).measured);
  gateway.end();
}

TEST(TimeBudget, AFailureBeforeTheFirstTokenIsRetriedElsewhere) {
  TestReplica replica{[](Peer& peer, const std::string&, int number) {
    peer.send(chunked_head());
    if (number == 0) {
      peer.send(chunk(": soon\n\n"));
      return peer.cut();
    }
    peer.send(chunk(words() + finish()) + std::string{net::kLastChunk});
  }};
  TestGateway gateway{{spec_of(replica, "r1"), spec_of(replica, "r2")}};
  const auto answer = ask(gateway, chat_body(), kBudget);
  EXPECT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(Json::parse(answer.body)["choices"][0]["message"]["content"], "onetwo");
  gateway.end();
}

TEST(TimeBudget, AStreamThatIsCutIsNoAnswer) {
  TestReplica replica{[](Peer& peer, const std::string&, int) {
    peer.send(chunked_head() + chunk(words()));
    peer.cut();
  }};
  TestGateway gateway{{spec_of(replica, "r1")}};
  EXPECT_EQ(ask(gateway, chat_body(), kBudget).status, 502);
  EXPECT_EQ(gateway.closed(1).at(0).outcome, ledger::Outcome::kFailed);
  gateway.end();
}

TEST(TimeBudget, AStreamThatEndsWithoutAReasonIsNoAnswer) {
  TestReplica replica{stream_of(words())};
  TestGateway gateway{{spec_of(replica, "r1")}};
  EXPECT_EQ(ask(gateway, chat_body(), kBudget).status, 502);
  gateway.end();
}

TEST(TimeBudget, AnErrorWithinTheStreamIsTheAnswer) {
  TestReplica replica{
      stream_of("data: {\"error\":{\"message\":\"no\",\"code\":400}}\n\n" + std::string{api::kDoneEvent})};
  TestGateway gateway{{spec_of(replica, "r1")}};
  const auto answer = ask(gateway, chat_body(), kBudget);
  EXPECT_EQ(answer.status, 400);
  EXPECT_EQ(answer.body, R"({"error":{"message":"no","code":400}})");
  EXPECT_EQ(gateway.closed(1).at(0).outcome, ledger::Outcome::kRejected);
  gateway.end();
}

TEST(TimeBudget, AnAnswerThatIsTooLongToKeepIsCut) {
  TestReplica replica{[](Peer& peer, const std::string&, int) {
    peer.send(chunked_head());
    const std::string piece = chunk(text_event(std::string(500'000, 'a')));
    for (int i = 0; i < 20; ++i) peer.send(piece);
    peer.wait_until_closed();
  }};
  TestGateway gateway{{spec_of(replica, "r1")}};
  const auto answer = ask(gateway, chat_body(), kBudget);
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(Json::parse(answer.body)["choices"][0]["finish_reason"], "length");
  EXPECT_LE(answer.body.size(), api::AnswerCollector::kTextBytesMax + 1000);
  gateway.end();
}

TEST(TimeBudget, AClientThatLeavesIsNoLongerCollectedFor) {
  std::promise<void> closed;
  TestReplica replica{[&](Peer& peer, const std::string&, int) {
    peer.send(chunked_head() + chunk(words()));
    peer.wait_until_closed();
    closed.set_value();
  }};
  TestGateway gateway{{spec_of(replica, "r1")}};
  {
    RawClient client{gateway.address()};
    client.send(chat_request(chat_body(), kBudget));
    ASSERT_TRUE(gateway.wait_for(R"("running":1)"));
  }
  closed.get_future().wait();
  EXPECT_EQ(gateway.closed(1).at(0).outcome, ledger::Outcome::kCancelled);
  gateway.end();
}

}  // namespace
}  // namespace penstock::gateway
