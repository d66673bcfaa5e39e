// Replicas that fail: who is asked next, what the client hears, and both legs of disaggregated requests.
#include "gateway/gateway_testing.h"

namespace penstock::gateway {
namespace {

using namespace std::chrono_literals;
using signals::Role;

TestReplica::Script always(std::string answer) {
  return [answer = std::move(answer)](Peer& peer, const std::string&, int) { peer.send(answer); };
}
void hang_up(Peer& peer, const std::string&, int) { peer.cut(); }
void decode_well(Peer& peer, const std::string&, int) {
  peer.send(chunked_head() + chunk(text_event("one")) + chunk(api::kDoneEvent) + std::string{net::kLastChunk});
}
void say_garbage(Peer& peer, const std::string&, int) {
  peer.send("this is no HTTP\r\n\r\n");
  peer.wait_until_closed();
}

const std::string kDecoded = text_event("one") + std::string{api::kDoneEvent};
constexpr std::string_view kDead =
    "data: {\"error\":{\"message\":\"EngineCore encountered an issue\",\"code\":500}}\n\n";

std::string first_chunk() {
  std::string event;
  api::append_first_event(event, kFrame);
  return chunk(event);
}

// Asks until the one that fails was asked, too: which is asked first is drawn.
void expect_good_answers(const TestReplica& bad, const GatewayOptions& options = quiet_options()) {
  TestReplica good{answer_well};
  TestGateway gateway{{spec_of(bad, "bad"), spec_of(good, "good")}, options};
  for (int i = 0; i < 40 && bad.requests().empty(); ++i) {
    const auto answer = ask(gateway, chat_body());
    EXPECT_EQ(answer.status, 200) << answer.body;
    EXPECT_EQ(field_in(answer.head, "x-penstock-replica"), "good");
  }
  EXPECT_FALSE(bad.requests().empty());
  EXPECT_NE(gateway.admin("/penstock/v1/overview").find(R"("retried_total":1)"), std::string::npos);
  gateway.end();
}

// The client receives only the good stream.
void expect_good_streams(const TestReplica& bad, const GatewayOptions& options = quiet_options()) {
  TestReplica good{decode_well};
  TestGateway gateway{{spec_of(bad, "bad"), spec_of(good, "good")}, options};
  for (int i = 0; i < 40 && bad.requests().empty(); ++i) {
    const auto answer = ask(gateway, chat_body("hi", kStream));
    EXPECT_EQ(answer.status, 200);
    EXPECT_EQ(answer.body, kDecoded);
    EXPECT_EQ(field_in(answer.head, "x-penstock-replica"), "good");
  }
  EXPECT_FALSE(bad.requests().empty());
  EXPECT_TRUE(gateway.wait_for(R"("retried_total":1)"));
  EXPECT_TRUE(gateway.wait_for(R"("failures_total":1)"));
  gateway.end();
}

TEST(Attempts, ABusyReplicaIsRetriedElsewhere) {
  expect_good_answers(TestReplica{always(with_length("503 Service Unavailable", "{}"))});
  expect_good_answers(TestReplica{always(with_length("429 Too Many Requests", "{}"))});
}

TEST(Attempts, AFailedReplicaIsRetriedElsewhere) {
  expect_good_answers(TestReplica{always(with_length("500 Internal Server Error", "{}"))});
  expect_good_answers(TestReplica{hang_up});
  expect_good_answers(TestReplica{say_garbage});
}

TEST(Attempts, AHungReplicaIsRetriedElsewhere) {
  GatewayOptions options = quiet_options();
  options.dispatch.first_byte_timeout = 100ms;
  expect_good_answers(TestReplica{[](Peer& peer, const std::string&, int) { peer.wait_until_closed(); }}, options);
}

TEST(Attempts, AReplicaThatSendsOnlyAHeadIsRetriedElsewhere) {
  GatewayOptions options = quiet_options();
  options.dispatch.first_byte_timeout = 100ms;
  for (const std::string& beginning : {std::string{}, chunk(": ping\n\n"), first_chunk()}) {
    const TestReplica::Script hang = [&](Peer& peer, const std::string&, int) {
      peer.send(chunked_head() + beginning);
      peer.wait_until_closed();
    };
    expect_good_streams(TestReplica{hang}, options);
    TestReplica alone{hang};
    TestGateway gateway{{spec_of(alone, "r1")}, options};
    EXPECT_EQ(ask(gateway, chat_body("hi", kStream)).status, 504);
  }
}

TEST(Attempts, BeforeTheFirstContentOnlyItsOwnTimeIsLimited) {
  for (const std::string& beginning : {std::string{}, chunk(": ping\n\n"), first_chunk()}) {
    TestReplica replica{[&](Peer& peer, const std::string&, int) {
      peer.send(chunked_head() + beginning);
      std::this_thread::sleep_for(600ms);  // Deadlines are checked every 200 ms.
      peer.send(chunk(kDecoded) + std::string{net::kLastChunk});
    }};
    GatewayOptions options = quiet_options();
    options.dispatch.stream_idle_timeout = 50ms;
    TestGateway gateway{{spec_of(replica, "r1")}, options};
    const auto answer = ask(gateway, chat_body("hi", kStream));
    EXPECT_TRUE(answer.whole);
    EXPECT_TRUE(answer.body.ends_with(kDecoded)) << answer.body;
    gateway.end();
  }
}

TEST(Attempts, AStreamThatFailsBeforeItsFirstContentIsRetriedElsewhere) {
  const std::string last{net::kLastChunk}, done = chunk(api::kDoneEvent);
  for (const std::string& failure :
       {chunk(kDead) + done + last, chunk(std::string{kDead} + std::string{api::kDoneEvent}) + last,
        first_chunk() + chunk(kDead) + done + last, chunk(": ping\n\n") + chunk(kDead), chunk(": ping\n\n"),
        first_chunk(), first_chunk() + last, chunk("data: {broken\n\n") + done + last}) {
    SCOPED_TRACE(failure);
    expect_good_streams(TestReplica{[&](Peer& peer, const std::string&, int) {
      peer.send(chunked_head() + failure);
      peer.cut();
    }});
  }
}

TEST(Attempts, WithoutAnotherReplicaAnErrorWithinAStreamIsRelayed) {
  TestReplica bad{
      always(chunked_head() + first_chunk() + chunk(kDead) + chunk(api::kDoneEvent) + std::string{net::kLastChunk})};
  TestGateway gateway{{spec_of(bad, "r1")}};
  const auto answer = ask(gateway, chat_body("hi", kStream));
  EXPECT_EQ(answer.status, 200);
  EXPECT_TRUE(answer.whole);
  EXPECT_TRUE(answer.body.ends_with(std::string{kDead} + std::string{api::kDoneEvent})) << answer.body;
  EXPECT_EQ(gateway.closed(1).front().outcome, ledger::Outcome::kFailed);
  EXPECT_TRUE(gateway.wait_for(R"("failures_total":1)"));
}

TEST(Attempts, AnUnreachableReplicaIsRetriedElsewhere) {
  TestReplica good{answer_well};
  ReplicaEndpoint unreachable = replica_named("unreachable");
  unreachable.addresses = {*net::Address::parse("127.0.0.1", 1)};
  TestGateway gateway{{unreachable, spec_of(good, "good")}};
  for (int i = 0; i < 20; ++i) EXPECT_EQ(ask(gateway, chat_body()).status, 200);
}

TEST(Attempts, AReplicaIsReachedAtAnyOfItsAddresses) {
  TestReplica good{answer_well};
  ReplicaEndpoint spec = spec_of(good, "good");
  spec.addresses = {*net::Address::parse("127.0.0.1", 1), *net::Address::parse("127.0.0.1", 2), good.address()};
  TestGateway gateway{{spec}};
  for (int i = 0; i < 3; ++i) EXPECT_EQ(ask(gateway, chat_body()).status, 200);
  EXPECT_NE(gateway.admin("/penstock/v1/overview").find(R"("failures_total":0)"), std::string::npos);
  spec.addresses.pop_back();
  spec.id = "nowhere";
  gateway.set_replicas({spec});
  EXPECT_EQ(ask(gateway, chat_body()).status, 502) << "each address is tried once";
}

TEST(Attempts, TheLastBusyReplicasResponseIsRelayedWithRetryAfter) {
  TestReplica busy{always(with_length("503 Service Unavailable", R"({"error":"busy"})"))};
  TestGateway gateway{{spec_of(busy, "r1")}};
  const auto answer = ask(gateway, chat_body());
  EXPECT_EQ(answer.status, 503);
  EXPECT_EQ(answer.body, R"({"error":"busy"})");
  EXPECT_EQ(field_in(answer.head, "retry-after"), "1");
}

TEST(Attempts, AReplicasRetryAfterIsKept) {
  TestReplica busy{always(with_length("429 Too Many Requests", "{}", "Retry-After: 7\r\n"))};
  TestGateway gateway{{spec_of(busy, "r1")}};
  const auto answer = ask(gateway, chat_body());
  EXPECT_EQ(answer.status, 429);
  EXPECT_EQ(field_in(answer.head, "retry-after"), "7");
  EXPECT_EQ(answer.head.find("Retry-After: 1"), std::string::npos);
}

TEST(Attempts, NoAnswerIsABadGatewayInOpenAisFormat) {
  TestReplica bad{hang_up};
  TestGateway gateway{{spec_of(bad, "r1")}};
  const auto answer = ask(gateway, chat_body(), "X-Request-Id: abc-1\r\n");
  EXPECT_EQ(answer.status, 502);
  EXPECT_NE(answer.body.find(R"("code":"replica_failed")"), std::string::npos);
  EXPECT_EQ(field_in(answer.head, "x-request-id"), "abc-1");
  EXPECT_EQ(gateway.closed(1).front().outcome, ledger::Outcome::kFailed);
}

TEST(Attempts, NoAnswerInTimeIsAGatewayTimeout) {
  TestReplica bad{[](Peer& peer, const std::string&, int) { peer.wait_until_closed(); }};
  GatewayOptions options = quiet_options();
  options.dispatch.first_byte_timeout = 50ms;
  TestGateway gateway{{spec_of(bad, "r1")}, std::move(options)};
  EXPECT_EQ(ask(gateway, chat_body()).status, 504);
}

TEST(Attempts, NoMoreAreMadeThanTheOptionsAllow) {
  TestReplica bad{hang_up};
  GatewayOptions options = quiet_options();
  options.dispatch.retries = 1;
  TestGateway gateway{{spec_of(bad, "r1"), spec_of(bad, "r2"), spec_of(bad, "r3")}, std::move(options)};
  EXPECT_EQ(ask(gateway, chat_body()).status, 502);
  EXPECT_EQ(bad.requests().size(), 2U);
}

TEST(Attempts, ConsecutiveFailuresEjectAReplica) {
  for (const std::string& failure :
       {with_length("500 Internal Server Error", "{}"), chunked_head() + chunk(text_event("one")) + "ff\r\n",
        chunked_head() + chunk(text_event("one")) + std::string{net::kLastChunk},
        chunked_head() + chunk(text_event("one")) + chunk("data: {broken\n\n") + std::string{net::kLastChunk}}) {
    TestReplica bad{[&](Peer& peer, const std::string&, int) {
      peer.send(failure);
      peer.cut();
    }};
    TestReplica good{decode_well};
    GatewayOptions options = quiet_options();
    options.dispatch.circuit_breaker.failures = 2;
    options.dispatch.circuit_breaker.open = options.dispatch.circuit_breaker.open_max = 1h;
    options.dispatch.strategy = routing::Strategy::kRoundRobin;  // Both replicas get requests.
    TestGateway gateway{{spec_of(bad, "r1"), spec_of(good, "r2")}, std::move(options)};
    for (int i = 0; i < 100 && bad.requests().size() < 2; ++i) ask(gateway, chat_body("hi", kStream));
    EXPECT_TRUE(gateway.wait_for(R"("ejection_cause":"consecutive_failures","ejections_total":1)")) << failure;
    for (int i = 0; i < 20; ++i) EXPECT_TRUE(ask(gateway, chat_body("hi", kStream)).whole);
    EXPECT_EQ(bad.requests().size(), 2U) << failure;
    gateway.end();
  }
}

TEST(Attempts, ARequestThatReplicasDoNotSupportIsNeitherRetriedNorAFailureOfThem) {
  const std::string refusal = R"({"error":{"message":"no such feature","code":501}})";
  const std::string stream =
      chunked_head() + chunk("data: " + refusal + "\n\n" + std::string{api::kDoneEvent}) + std::string{net::kLastChunk};
  const struct {
    std::string answer;
    const char* fields;
    int status;
  } cases[] = {{with_length("501 Not Implemented", refusal), "", 501},
               {with_length("505 HTTP Version Not Supported", refusal), "", 505},
               {stream, "", 200},
               {stream, "X-Time-Budget: 60s\r\n", 501}};
  for (const auto& each : cases) {
    TestReplica replica{always(each.answer)};
    GatewayOptions options = quiet_options();
    options.dispatch.circuit_breaker.failures = 2;
    options.dispatch.strategy = routing::Strategy::kRoundRobin;
    TestGateway gateway{{spec_of(replica, "r1"), spec_of(replica, "r2")}, std::move(options)};
    for (int i = 0; i < 8; ++i) {
      const auto answer = ask(gateway, chat_body("hi", *each.fields == '\0' ? kStream : ""), each.fields);
      EXPECT_EQ(answer.status, each.status);
      EXPECT_NE(answer.body.find(refusal), std::string::npos) << answer.body;
    }
    for (const ledger::Entry& entry : gateway.closed(8)) EXPECT_EQ(entry.outcome, ledger::Outcome::kRejected);
    EXPECT_EQ(replica.requests().size(), 8U) << each.answer;
    const std::string overview = gateway.admin("/penstock/v1/overview");
    EXPECT_NE(overview.find(R"("retried_total":0)"), std::string::npos);
    EXPECT_EQ(overview.find("consecutive_failures"), std::string::npos) << each.answer;
    EXPECT_EQ(overview.find(R"("failures_total":1)"), std::string::npos) << each.answer;
    gateway.end();
  }
}

TEST(Attempts, TheOnlyReplicaIsNeverEjected) {
  TestReplica bad{always(with_length("500 Internal Server Error", "{}"))};
  GatewayOptions options = quiet_options();
  options.dispatch.circuit_breaker.failures = 2;
  TestGateway gateway{{spec_of(bad, "r1")}, std::move(options)};
  for (int i = 0; i < 5; ++i) EXPECT_EQ(ask(gateway, chat_body()).status, 500);
}

// ---- prefill and decode ---------------------------------------------------------------------------------------------

const std::string kTransfer =
    R"({"do_remote_prefill":true,"remote_engine_id":"p","remote_host":"127.0.0.1","remote_port":5,)"
    R"("remote_block_ids":[1]})";

void prefill_well(Peer& peer, const std::string&, int) { peer.send(good_answer("x", kTransfer)); }

TEST(TwoLegs, ThePrefillReplicaComputesAndTheDecodeReplicaAnswers) {
  TestReplica prefill{prefill_well}, decode{decode_well};
  TestGateway gateway{{spec_of(prefill, "p1", Role::kPrefill), spec_of(decode, "d1", Role::kDecode)}};
  const auto answer = ask(gateway, chat_body("hi", kStream + R"(,"max_tokens":9)"));
  EXPECT_EQ(answer.status, 200);
  EXPECT_TRUE(answer.whole);
  EXPECT_EQ(answer.body, kDecoded);
  EXPECT_EQ(field_in(answer.head, "x-penstock-replica"), "d1");
  ASSERT_EQ(prefill.requests().size(), 1U);
  EXPECT_NE(prefill.requests()[0].find(R"("do_remote_decode":true)"), std::string::npos);
  EXPECT_EQ(prefill.requests()[0].find(R"("max_tokens":9)"), std::string::npos);
  ASSERT_EQ(decode.requests().size(), 1U);
  EXPECT_NE(decode.requests()[0].find(R"("remote_block_ids":[1])"), std::string::npos);
  EXPECT_NE(decode.requests()[0].find(R"("max_tokens":9)"), std::string::npos);
}

TEST(TwoLegs, APrefillReplicasErrorIsRelayed) {
  const std::string complaint = R"({"error":{"message":"broken"}})";
  for (const std::string& failure :
       {with_length("500 Internal Server Error", complaint),
        chunked_head("500 Internal Server Error") + chunk(complaint) + std::string{net::kLastChunk},
        with_length("400 Bad Request", complaint)}) {
    TestReplica prefill{always(failure)}, decode{decode_well};
    TestGateway gateway{{spec_of(prefill, "p1", Role::kPrefill), spec_of(decode, "d1", Role::kDecode)}};
    const auto answer = ask(gateway, chat_body("hi", kStream));
    EXPECT_GE(answer.status, 400);
    EXPECT_TRUE(answer.whole) << failure;
    EXPECT_EQ(answer.body, complaint);
    EXPECT_TRUE(decode.requests().empty());
  }
}

TEST(TwoLegs, AnotherPrefillReplicaTakesOver) {
  for (const TestReplica::Script& failure :
       {TestReplica::Script{hang_up}, always(with_length("500 Internal Server Error", "{}")),
        always(good_answer("says nothing of its KV"))}) {
    TestReplica bad{failure}, good{prefill_well}, decode{decode_well};
    TestGateway gateway{{spec_of(bad, "p1", Role::kPrefill), spec_of(good, "p2", Role::kPrefill),
                         spec_of(decode, "d1", Role::kDecode)}};
    for (int i = 0; i < 40 && bad.requests().empty(); ++i)
      EXPECT_EQ(ask(gateway, chat_body("hi", kStream)).status, 200);
    EXPECT_FALSE(bad.requests().empty());
  }
}

TEST(TwoLegs, WithoutKvParametersThereIsNoSecondLeg) {
  TestReplica prefill{answer_well}, decode{decode_well};
  TestGateway gateway{{spec_of(prefill, "p1", Role::kPrefill), spec_of(decode, "d1", Role::kDecode)}};
  const auto answer = ask(gateway, chat_body());
  EXPECT_EQ(answer.status, 502);
  EXPECT_NE(answer.body.find("prefill_failed"), std::string::npos);
  EXPECT_TRUE(decode.requests().empty());
}

TEST(TwoLegs, AFailedDecodeReplicaRestartsTheRequest) {
  TestReplica prefill{prefill_well}, bad{hang_up}, good{decode_well};
  TestGateway gateway{
      {spec_of(prefill, "p1", Role::kPrefill), spec_of(bad, "d1", Role::kDecode), spec_of(good, "d2", Role::kDecode)}};
  for (int i = 0; i < 40 && bad.requests().empty(); ++i) {
    const auto answer = ask(gateway, chat_body("hi", kStream));
    EXPECT_EQ(answer.status, 200) << answer.body;
    EXPECT_EQ(answer.body, kDecoded);
  }
  ASSERT_EQ(bad.requests().size(), 1U);
  EXPECT_EQ(prefill.requests().size(), good.requests().size() + 1) << "its KV is computed again";
  for (const std::string& request : good.requests())
    EXPECT_NE(request.find("remote_block_ids"), std::string::npos) << "a decode replica is never asked to prefill";
}

TEST(TwoLegs, ADecodeReplicaThatIsCutOffCutsTheClientsAnswer) {
  TestReplica prefill{prefill_well}, decode{[](Peer&peer, const std::string&, int) {
    peer.send(chunked_head() + chunk(text_event("one")));
    peer.cut();
  }};
  TestGateway gateway{{spec_of(prefill, "p1", Role::kPrefill), spec_of(decode, "d1", Role::kDecode)}};
  const auto answer = ask(gateway, chat_body("hi", kStream));
  EXPECT_EQ(answer.status, 200);
  EXPECT_FALSE(answer.whole);
  const ledger::Entry entry = gateway.closed(1).front();
  EXPECT_EQ(entry.outcome, ledger::Outcome::kTruncated);
  EXPECT_EQ(entry.replica, "d1");
}

TEST(TwoLegs, AClientThatLeavesDuringThePrefillCancelsIt) {
  std::promise<void> cancelled;
  TestReplica prefill{[&](Peer& peer, const std::string&, int) {
    peer.wait_until_closed();
    cancelled.set_value();
  }};
  TestReplica decode{decode_well};
  TestGateway gateway{{spec_of(prefill, "p1", Role::kPrefill), spec_of(decode, "d1", Role::kDecode)}};
  {
    RawClient client{gateway.address()};
    client.send(chat_request(chat_body("hi", kStream)));
    EXPECT_TRUE(gateway.wait_for(R"("open_requests":1)"));
  }
  EXPECT_EQ(cancelled.get_future().wait_for(20s), std::future_status::ready);
  EXPECT_EQ(gateway.closed(1).front().outcome, ledger::Outcome::kCancelled);
  EXPECT_TRUE(decode.requests().empty());
}

TEST(TwoLegs, WithoutADecodeReplicaARequestWaits) {
  TestReplica prefill{prefill_well}, decode{decode_well};
  ReplicaEndpoint warming = spec_of(decode, "d1", Role::kDecode);
  warming.phase = dispatch::ReplicaPhase::kWarming;
  TestGateway gateway{{spec_of(prefill, "p1", Role::kPrefill), warming}};
  RawClient client{gateway.address()};
  client.send(chat_request(chat_body("hi", kStream)));
  EXPECT_TRUE(gateway.wait_for(R"("interactive":1)"));
  EXPECT_TRUE(prefill.requests().empty());
  gateway.set_replicas({spec_of(prefill, "p1", Role::kPrefill), spec_of(decode, "d1", Role::kDecode)});
  EXPECT_EQ(client.read_answer().body, kDecoded);
}

}  // namespace
}  // namespace penstock::gateway
