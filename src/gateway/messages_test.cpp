// Anthropic's Messages API through the gateway: keys, errors, first content, ends of streams, cost.
#include <atomic>
#include <nlohmann/json.hpp>

#include "api/message_answer.h"
#include "gateway/gateway_testing.h"

namespace penstock::gateway {
namespace {

using Json = nlohmann::json;

const api::AnswerFrame kMessageFrame{"msg_1", "m", 0, false};
const std::string kMessage = R"({"model":"m","max_tokens":50,"messages":[{"role":"user","content":"hi"}])";

GatewayOptions with_key() {
  GatewayOptions options = quiet_options();
  options.anonymous = false;
  options.dispatch.tenants.resize(1);
  options.dispatch.tenants[0].name = "shop";
  options.api_keys.push_back({"sk-good", 0});
  return options;
}

RawClient::Answer ask_message(const TestGateway& gateway, const std::string& more = {}, std::string_view fields = {},
                              std::string_view path = "/v1/messages") {
  RawClient client{gateway.address()};
  client.send(request_to(path, kMessage + more + "}", fields));
  return client.read_answer();
}

std::string start_of_message() {
  std::string events;
  api::append_message_start(events, kMessageFrame, {9, 0, 8});
  return events;
}
std::string text_of_message(std::string_view text) {
  std::string event;
  api::append_message_text(event, text);
  return event;
}
std::string end_of_message(std::uint32_t tokens) {
  std::string events;
  api::append_block_stop(events, 0);
  api::append_message_delta(events, {}, tokens, api::Usage{9, tokens, 8});
  return events.append(api::kMessageStopEvent);
}

TEST(Messages, AStreamIsRelayedUnchangedAndCostsItsUsage) {
  const std::string events = start_of_message() + text_of_message("a") + text_of_message("b") + end_of_message(2);
  TestReplica replica{[&](Peer& peer, const std::string&, int) {
    peer.send(chunked_head() + chunk(events) + std::string{net::kLastChunk});
  }};
  TestGateway gateway{{spec_of(replica, "r1")}};
  const auto answer = ask_message(gateway, kStream, "anthropic-version: 2023-06-01\r\n", "/v1/messages?beta=true");
  EXPECT_EQ(answer.body, events);
  const std::string asked = replica.requests().at(0);
  EXPECT_TRUE(asked.starts_with("POST /v1/messages?beta=true ")) << asked;
  EXPECT_NE(asked.find("anthropic-version: 2023-06-01\r\n"), std::string::npos);
  const ledger::Entry entry = gateway.closed(1).at(0);
  EXPECT_EQ(entry.outcome, ledger::Outcome::kCompleted);
  EXPECT_TRUE(entry.measured);
  EXPECT_EQ(entry.prompt_tokens, 9U);
  EXPECT_EQ(entry.cached_tokens, 8U);
  EXPECT_EQ(entry.output_tokens, 2U);
  gateway.end();
}

TEST(Messages, AreRetriedUntilTheirFirstDelta) {
  const std::string good = start_of_message() + text_of_message("a") + end_of_message(1);
  std::atomic<int> attempts = 0;
  const auto script = [&](Peer& peer, const std::string&, int) {
    if (attempts++ == 0) {
      peer.send(chunked_head() + chunk(start_of_message()));
      return peer.cut();
    }
    peer.send(chunked_head() + chunk(good) + std::string{net::kLastChunk});
  };
  TestReplica one{script}, other{script};
  TestGateway gateway{{spec_of(one, "r1"), spec_of(other, "r2")}};
  EXPECT_EQ(ask_message(gateway, kStream).body, good);
  EXPECT_EQ(attempts, 2);
  gateway.end();
}

TEST(Messages, ACutStreamEndsWithAnErrorEvent) {
  TestReplica replica{[](Peer& peer, const std::string&, int) {
    peer.send(chunked_head() + chunk(start_of_message() + text_of_message("a")));
    peer.cut();
  }};
  TestGateway gateway{{spec_of(replica, "r1")}};
  const std::string body = ask_message(gateway, kStream).body;
  const std::size_t at = body.find("event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"api_error\"");
  EXPECT_NE(at, std::string::npos) << body;
  EXPECT_EQ(gateway.closed(1).at(0).outcome, ledger::Outcome::kTruncated);
  gateway.end();
}

TEST(Messages, ATimeBudgetEndsAStreamAsIfItsLimitWereReached) {
  TestReplica replica{[](Peer& peer, const std::string&, int) {
    peer.send(chunked_head() + chunk(start_of_message() + text_of_message("a") + text_of_message("b")));
    peer.wait_until_closed();
  }};
  TestGateway gateway{{spec_of(replica, "r1")}};
  std::string end;
  api::append_block_stop(end, 0);
  api::append_message_delta(end, {api::FinishReason::kLength}, 2, api::Usage{9, 0, 8});
  EXPECT_EQ(
      ask_message(gateway, kStream, "X-Time-Budget: 300ms\r\n").body,
      start_of_message() + text_of_message("a") + text_of_message("b") + end + std::string{api::kMessageStopEvent});
  EXPECT_EQ(gateway.closed(1).at(0).outcome, ledger::Outcome::kTimedOut);
  gateway.end();
}

TEST(Messages, TheKeyMayComeAsXApiKeyAndGoesNoFurther) {
  TestReplica replica{[](Peer& peer, const std::string&, int) {
    peer.send(with_length("200 OK", api::whole_message(kMessageFrame, "a", {}, {9, 1, 0})));
  }};
  GatewayOptions options = with_key();
  options.forward.strict = true;
  options.forward.headers = {"x-api-key"};
  TestGateway gateway{{spec_of(replica, "r1")}, options};
  EXPECT_EQ(ask_message(gateway, {}, "x-api-key: sk-good\r\n").status, 200);
  EXPECT_EQ(ask_message(gateway, {}, "Authorization: Bearer sk-good\r\nx-api-key: other\r\n").status, 200);
  EXPECT_EQ(ask_message(gateway, {}, "x-api-key: sk-bad\r\n").status, 401);
  RawClient client{gateway.address()};
  client.send(net::testing::get("/v1/models", "x-api-key: sk-good\r\n"));
  EXPECT_EQ(client.read_answer().status, 200);
  ASSERT_EQ(replica.requests().size(), 2U);
  for (const std::string& asked : replica.requests()) {
    EXPECT_EQ(asked.find("sk-good"), std::string::npos) << asked;
    EXPECT_EQ(asked.find("x-api-key"), std::string::npos) << asked;
  }
  gateway.end();
}

TEST(Messages, ErrorsHaveAnthropicsFormat) {
  TestReplica replica{answer_well};
  TestGateway gateway{{spec_of(replica, "r1")}, with_key()};
  EXPECT_TRUE(gateway.wait_until_ready());
  const auto type_of = [&](std::string_view request) {
    RawClient client{gateway.address()};
    client.send(request);
    const auto answer = client.read_answer();
    const Json body = Json::parse(answer.body, nullptr, false);
    EXPECT_TRUE(body.is_object() && body.value("type", "") == "error") << answer.body;
    EXPECT_FALSE(body["error"].value("message", "").empty());
    return std::to_string(answer.status) + " " + body["error"].value("type", "");
  };
  const std::string key = "x-api-key: sk-good\r\n";
  EXPECT_EQ(type_of(request_to("/v1/messages", kMessage + "}")), "401 authentication_error");
  EXPECT_EQ(type_of(request_to("/v1/messages", R"({"model":"m","messages":[{"role":"user","content":"a"}]})", key)),
            "400 invalid_request_error");
  EXPECT_EQ(type_of(request_to("/v1/messages",
                               R"({"model":"x","max_tokens":1,"messages":[{"role":"user","content":"a"}]})", key)),
            "404 not_found_error");
  EXPECT_EQ(type_of("GET /v1/messages HTTP/1.1\r\nHost: g\r\n\r\n"), "405 invalid_request_error");
  EXPECT_EQ(type_of(request_to("/v1/messages/batches", "{}", key)), "404 not_found_error");
  gateway.end();
}

TEST(Messages, ACountOfTokensIsForwardedAndCostsOneToken) {
  TestReplica replica{
      [](Peer& peer, const std::string&, int) { peer.send(with_length("200 OK", R"({"input_tokens":7})")); }};
  TestGateway gateway{{spec_of(replica, "r1")}};
  EXPECT_EQ(ask_message(gateway, {}, {}, "/v1/messages/count_tokens").body, R"({"input_tokens":7})");
  EXPECT_TRUE(replica.requests().at(0).starts_with("POST /v1/messages/count_tokens "));
  const ledger::Entry entry = gateway.closed(1).at(0);
  EXPECT_EQ(entry.reserved_tokens, 1U) << "the least that an estimate has";
  EXPECT_EQ(entry.prompt_tokens + entry.output_tokens, 1U);
  gateway.end();
}

TEST(Messages, PrefillAndDecodeReplicasShareOne) {
  const std::string params = R"({"remote_port":7})";
  TestReplica prefill{[&](Peer& peer, const std::string&, int) {
    peer.send(with_length("200 OK", api::whole_message(kMessageFrame, "", {}, {9, 1, 0}, params)));
  }};
  TestReplica decode{[](Peer& peer, const std::string&, int) {
    peer.send(with_length("200 OK", api::whole_message(kMessageFrame, "all", {}, {9, 3, 0})));
  }};
  TestGateway gateway{{spec_of(prefill, "p", signals::Role::kPrefill), spec_of(decode, "d", signals::Role::kDecode)}};
  EXPECT_EQ(Json::parse(ask_message(gateway).body)["content"][0]["text"], "all");
  EXPECT_NE(prefill.requests().at(0).find(R"("max_tokens":1,)"), std::string::npos) << prefill.requests().at(0);
  EXPECT_NE(decode.requests().at(0).find(R"("kv_transfer_params":{"remote_port":7})"), std::string::npos);
  gateway.end();
}

}  // namespace
}  // namespace penstock::gateway
