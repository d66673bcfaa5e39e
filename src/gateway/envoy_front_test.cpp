// A whole gateway behind something that speaks as Envoy does.
#include "gateway/envoy_front.h"

#include "gateway/envoy_testing.h"
#include "gateway/gateway_testing.h"
#include "net/grpc_testing.h"

namespace penstock::gateway {
namespace {

using envoy_testing::Reply;
using Fields = std::vector<std::pair<std::string, std::string>>;

const Fields kHead{{":method", "POST"}, {":path", "/v1/chat/completions"}, {":authority", "llm"}};

GatewayOptions picker_options() {
  GatewayOptions options = quiet_options();
  options.endpoint_picker.emplace();
  return options;
}

// One client of Envoy after the other.
class Envoy {
 public:
  explicit Envoy(TestGateway& gateway) : client_{*(*gateway).endpoint_picker_address()} {}

  void ask(std::string_view body, const Fields& more = {}) {
    Fields fields = kHead;
    fields.insert(fields.end(), more.begin(), more.end());
    taken_ = 0;
    stream_ = client_.call(connect::kExtProcMethod, net::testing::framed(envoy_testing::request_headers(fields)),
                           "application/grpc", false);
    send(envoy_testing::request_body(body, false));
    send(envoy_testing::request_body("", true));
  }
  void send(std::string_view message) { client_.more(stream_, net::testing::framed(message)); }
  // The next answer; one without a part once the call has ended.
  Reply next() {
    std::string_view message;
    client_.until([&] { return read_message(message) || client_.answers[stream_].ended; });
    if (!read_message(message)) return {};
    taken_ += 5 + message.size();
    return envoy_testing::read(message);
  }
  // How the call has ended.
  std::string status() { return client_.wait(stream_).fields["grpc-status"]; }
  void leave() {
    client_.cancel(stream_);
    client_.flush();
  }
  std::string health(std::string_view service) {
    core::protobuf::Writer request;
    request.bytes(1, service);
    const auto stream = client_.call("/grpc.health.v1.Health/Check", net::testing::framed(request.message()));
    auto& answer = client_.wait(stream);
    if (answer.body.size() < 7) return "status " + answer.fields["grpc-status"];
    return answer.body.back() == 1 ? "SERVING" : "NOT_SERVING";
  }

 private:
  bool read_message(std::string_view& message) {
    const std::string_view rest = std::string_view{client_.answers[stream_].body}.substr(taken_);
    if (rest.size() < 5) return false;
    std::size_t size = 0;
    for (std::size_t i = 1; i < 5; ++i) size = size << 8 | static_cast<std::uint8_t>(rest[i]);
    if (rest.size() < 5 + size) return false;
    message = rest.substr(5, size);
    return true;
  }

  net::testing::GrpcClient client_;
  std::int32_t stream_ = 0;
  std::size_t taken_ = 0;
};

constexpr std::string_view kFirstEvent =
    "data: {\"id\":\"1\",\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}\n\n";
constexpr std::string_view kLastEvents =
    "data: {\"id\":\"1\",\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"length\"}]}\n\n"
    "data: {\"id\":\"1\",\"model\":\"m\",\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":1,"
    "\"total_tokens\":4}}\n\ndata: [DONE]\n\n";

TEST(EnvoyFront, AStreamIsPickedRelayedAndAccountedForWithoutTheUsageThatTheClientDidNotRequest) {
  TestReplica replica{answer_well};
  TestGateway gateway{{spec_of(replica, "r1")}, picker_options()};
  Envoy envoy{gateway};
  envoy.ask(chat_body("hi", kStream));
  const Reply head = envoy.next(), body = envoy.next();
  EXPECT_EQ(head.part, 1U);
  EXPECT_EQ(head.set.at("x-gateway-destination-endpoint"), replica.url().substr(7));
  EXPECT_NE(body.body.find(R"("include_usage":true)"), std::string::npos) << body.body;
  EXPECT_TRUE(body.ends);

  envoy.send(envoy_testing::response_headers({{":status", "200"}, {"content-type", "text/event-stream"}}));
  envoy.send(envoy_testing::response_body(kFirstEvent, false));
  EXPECT_EQ(envoy.next().part, 2U);
  EXPECT_EQ(envoy.next().body, kFirstEvent);
  envoy.send(envoy_testing::response_body(kLastEvents, false));
  std::string rest = envoy.next().body;
  envoy.send(envoy_testing::response_body("", true));
  for (Reply reply = envoy.next(); reply.part != 0; reply = envoy.next()) {
    rest += reply.body;
    EXPECT_TRUE(reply.ends);
  }
  EXPECT_EQ(rest.find("usage"), std::string::npos) << rest;
  EXPECT_NE(rest.find("[DONE]"), std::string::npos) << rest;
  EXPECT_EQ(envoy.status(), "0");
  const auto entries = gateway.closed(1);
  ASSERT_EQ(entries.size(), 1U);
  EXPECT_EQ(entries[0].outcome, ledger::Outcome::kCompleted);
  EXPECT_EQ(entries[0].output_tokens, 1U);
  EXPECT_TRUE(replica.requests().empty()) << "Envoy sends them";
}

TEST(EnvoyFront, AClientThatLeavesWhileItsAnswerIsStreamedIsCancelledAtOnce) {
  TestReplica replica{answer_well};
  TestGateway gateway{{spec_of(replica, "r1")}, picker_options()};
  Envoy envoy{gateway};
  envoy.ask(chat_body("hi", kStream));
  EXPECT_EQ(envoy.next().part, 1U);
  envoy.send(envoy_testing::response_headers({{":status", "200"}, {"content-type", "text/event-stream"}}));
  envoy.send(envoy_testing::response_body(kFirstEvent, false));
  while (envoy.next().part != 4U) {}
  envoy.leave();
  EXPECT_EQ(gateway.closed(1).at(0).outcome, ledger::Outcome::kCancelled);
}

TEST(EnvoyFront, AFailureIsNotRetriedAndAReplicaThatIsNotReachedGetsNoFurtherRequests) {
  TestReplica first{answer_well}, second{answer_well};
  TestGateway gateway{{spec_of(first, "r1"), spec_of(second, "r2")}, picker_options()};
  Envoy envoy{gateway};
  envoy.ask(chat_body());
  const std::string failed = envoy.next().set["x-gateway-destination-endpoint"];
  EXPECT_EQ(envoy.next().part, 3U);
  envoy.send(envoy_testing::response_headers({{":status", "503"}, {"content-type", "text/plain"}}));
  envoy.send(envoy_testing::response_body("upstream connect error or disconnect/reset before headers", true));
  const Reply refusal = envoy.next();
  EXPECT_EQ(refusal.status, 502U);
  EXPECT_NE(refusal.immediate_body.find("replica_failed"), std::string::npos);
  EXPECT_EQ(envoy.status(), "0");
  for (int i = 0; i < 3; ++i) {
    envoy.ask(chat_body());
    EXPECT_NE(envoy.next().set["x-gateway-destination-endpoint"], failed);
    envoy.leave();
  }
}

TEST(EnvoyFront, APrefillReplicaIsNamedToTheDecodeReplica) {
  TestReplica prefill{answer_well}, decode{answer_well};
  TestGateway gateway{{spec_of(prefill, "p", signals::Role::kPrefill), spec_of(decode, "d", signals::Role::kDecode)},
                      picker_options()};
  Envoy envoy{gateway};
  envoy.ask(chat_body("hi"), {{"x-prefiller-host-port", "10.0.0.66:1"}});
  const Reply head = envoy.next();
  EXPECT_EQ(head.set.at("x-gateway-destination-endpoint"), decode.url().substr(7));
  EXPECT_EQ(head.set.at("x-prefiller-host-port"), prefill.url().substr(7)) << "not the client's";
}

TEST(EnvoyFront, KeysAreCheckedAndStayWithTheGateway) {
  TestReplica replica{answer_well};
  GatewayOptions options = picker_options();
  options.anonymous = false;
  options.dispatch.tenants.resize(1);
  options.dispatch.tenants[0].name = "shop";
  options.api_keys.push_back({"sk-shop", 0});
  TestGateway gateway{{spec_of(replica, "r1")}, options};
  Envoy envoy{gateway};
  envoy.ask(chat_body());
  const Reply refusal = envoy.next();
  EXPECT_EQ(refusal.status, 401U);
  EXPECT_NE(refusal.immediate_body.find("invalid_api_key"), std::string::npos);
  envoy.ask(chat_body(), {{"authorization", "Bearer sk-shop"}});
  EXPECT_EQ(envoy.next().removed, std::set<std::string>{"authorization"});
}

TEST(EnvoyFront, HealthFollowsTheReplicasAndTheDrain) {
  TestReplica replica{answer_well};
  TestGateway gateway{{}, picker_options()};
  Envoy envoy{gateway};
  EXPECT_EQ(envoy.health("liveness"), "SERVING");
  EXPECT_EQ(envoy.health("readiness"), "NOT_SERVING") << "there is no replica";
  gateway.set_replicas({spec_of(replica, "r1")});
  EXPECT_TRUE(gateway.wait_until_ready());
  for (const char* service : {"", "readiness", "inference-extension", "envoy.service.ext_proc.v3.ExternalProcessor"})
    EXPECT_EQ(envoy.health(service), "SERVING") << service;
  EXPECT_EQ(envoy.health("other"), "status 5");
}

}  // namespace
}  // namespace penstock::gateway
