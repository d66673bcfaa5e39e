#include "gateway/envoy_exchange.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "gateway/envoy_testing.h"

namespace penstock::gateway {
namespace {

using connect::BodySendMode;
using connect::ExtProcPart;
using connect::ProcessingRequest;

using envoy_testing::read;
using envoy_testing::Reply;

class FakeCall final : public net::GrpcCall {
 public:
  [[nodiscard]] std::string_view path() const override { return connect::kExtProcMethod; }
  void send(std::string_view message) override { replies.push_back(read(message)); }
  [[nodiscard]] std::size_t unsent() const override { return 0; }
  void finish(net::GrpcStatus status, std::string_view) override { finished = status; }

  std::vector<Reply> replies;
  std::optional<net::GrpcStatus> finished;
};

class Handler final : public net::ExchangeHandler, public net::ExchangeListener, public net::ResponseListener {
 public:
  void on_request(net::Exchange& exchange) override {
    ++requests;
    exchange.listen(this);
    path = exchange.head().target;
    host = exchange.head().field("host");
    exchange.take_body(body);
  }
  std::string error_body(int code, std::string_view text) override {
    return std::to_string(code) + ' ' + std::string{text};
  }
  void on_writable() override {}
  void on_client_gone() override { ++gone; }
  void on_head(const net::ResponseHead& head) override {
    status = head.status;
    if (starts) starts->start(200, head.fields, head.content_length);
  }
  void on_body(std::string_view bytes) override {
    if (starts) starts->write(bytes);
  }
  void on_end() override {
    ended = true;
    if (starts) starts->finish();
  }
  void on_fault(net::ClientFault is, bool) override { fault = is; }

  int requests = 0, gone = 0, status = 0;
  bool ended = false;
  std::string path, host;
  net::Body body;
  std::optional<net::ClientFault> fault;
  EnvoyExchange* starts = nullptr;  // Passes on what comes.
};

class EnvoyExchangeTest : public testing::Test {
 protected:
  EnvoyExchangeTest() { context.limits.memory = std::make_shared<net::MemoryBudget>(1 << 24, 1 << 24); }

  void headers(BodySendMode request = BodySendMode::kFullDuplexStreamed,
               BodySendMode response = BodySendMode::kFullDuplexStreamed, bool end = false) {
    ProcessingRequest message;
    message.headers = {{":method", "POST"},
                       {":path", "/v1/chat/completions?a=1"},
                       {":authority", "llm.example"},
                       {"content-type", "application/json"},
                       {"content-length", "10"},
                       {"authorization", "Bearer sk-1"},
                       {"x-gateway-destination-endpoint", "10.0.0.66:9999"},
                       {"x-dp-rank", "3"}};
    message.request_body_mode = request;
    message.response_body_mode = response;
    message.end_of_stream = end;
    exchange.take(message);
  }
  void take(ExtProcPart part, std::string_view body, bool end) {
    ProcessingRequest message;
    message.part = part;
    message.body = body;
    message.end_of_stream = end;
    exchange.take(message);
  }
  void pick(std::string_view body) {
    Target target;
    net::CallOptions options;
    options.address = *net::Address::parse("10.0.0.7", 8000);
    exchange.send(target, options,
                  "POST /v1/chat/completions HTTP/1.1\r\nHost: 10.0.0.7:8000\r\nContent-Type: application/json\r\n"
                  "x-request-id: req-1\r\nContent-Length: 10\r\n\r\n",
                  body, handler);
  }
  void answer_head(std::string_view status, std::string_view type, bool end = false) {
    ProcessingRequest message;
    message.part = ExtProcPart::kResponseHeaders;
    message.headers = {{":status", status}, {"content-type", type}, {"set-cookie", "a=b"}};
    message.end_of_stream = end;
    exchange.take(message);
  }
  void ask() {
    headers();
    take(ExtProcPart::kRequestBody, "0123456789", false);
    take(ExtProcPart::kRequestBody, "", true);
    pick("0123456789");
  }

  Handler handler;
  FakeCall call;
  EnvoyContext context{handler, {}, {}, true, {}, false, {}};
  EnvoyExchange exchange{context, call, core::Instant{}};
};

TEST_F(EnvoyExchangeTest, ARequestIsAnsweredWithItsEndpointAndItsBodyOnceItsBodyHasCome) {
  headers();
  take(ExtProcPart::kRequestBody, "01234", false);
  EXPECT_EQ(handler.requests, 0);
  take(ExtProcPart::kRequestBody, "56789", false);
  take(ExtProcPart::kRequestBody, "", true);
  take(ExtProcPart::kRequestBody, "56789", true);  // Repeated by some versions of Envoy.
  ASSERT_EQ(handler.requests, 1);
  EXPECT_EQ(handler.path, "/v1/chat/completions?a=1");
  EXPECT_EQ(handler.host, "llm.example");
  EXPECT_EQ(handler.body.view(), "0123456789");
  EXPECT_TRUE(call.replies.empty()) << "the request may wait";

  pick("0123456789");
  ASSERT_EQ(call.replies.size(), 2U);
  const Reply& head = call.replies[0];
  EXPECT_EQ(head.part, 1U);
  EXPECT_EQ(head.set.at("x-gateway-destination-endpoint"), "10.0.0.7:8000") << "not what the client sent";
  EXPECT_EQ(head.set.at("x-request-id"), "req-1");
  EXPECT_FALSE(head.set.contains("content-type")) << "it is the same";
  EXPECT_EQ(head.removed, (std::set<std::string>{"authorization", "x-dp-rank"}));
  EXPECT_EQ(call.replies[1].part, 3U);
  EXPECT_EQ(call.replies[1].body, "0123456789");
  EXPECT_TRUE(call.replies[1].ends);
}

TEST_F(EnvoyExchangeTest, ALongBodyIsSentInPiecesThatEnvoyTakes) {
  headers();
  take(ExtProcPart::kRequestBody, "0123456789", true);
  const std::string body(150'000, 'x');
  pick(body);
  std::string sent;
  for (const Reply& reply : call.replies) {
    EXPECT_LE(reply.body.size(), connect::kExtProcPieceBytes);
    EXPECT_EQ(reply.ends, &reply == &call.replies.back());
    sent += reply.body;
  }
  EXPECT_EQ(sent, body);
  EXPECT_EQ(call.replies[0].set.at("content-length"), "150000");
}

TEST_F(EnvoyExchangeTest, ABufferedRequestIsAnsweredTwice) {
  headers(BodySendMode::kBuffered);
  ASSERT_EQ(call.replies.size(), 1U) << "Envoy sends the body after an answer to the headers";
  EXPECT_TRUE(call.replies[0].set.empty());
  take(ExtProcPart::kRequestBody, "0123456789", true);
  pick("0123");
  ASSERT_EQ(call.replies.size(), 2U);
  EXPECT_EQ(call.replies[1].part, 3U);
  EXPECT_EQ(call.replies[1].set.at("x-gateway-destination-endpoint"), "10.0.0.7:8000");
  EXPECT_EQ(call.replies[1].body, "0123");
}

TEST_F(EnvoyExchangeTest, ModesThatLeaveNoChoiceAreRefusedWithWhatToSet) {
  headers(BodySendMode::kStreamed);
  ASSERT_EQ(call.replies.size(), 1U);
  EXPECT_EQ(call.replies[0].status, 500U);
  EXPECT_NE(call.replies[0].immediate_body.find("request_body_mode must be"), std::string::npos);
  EXPECT_TRUE(exchange.is_over());
}

TEST_F(EnvoyExchangeTest, AnAnswerIsPassedOnPieceByPiece) {
  ask();
  call.replies.clear();
  handler.starts = &exchange;
  answer_head("200", "text/event-stream");
  EXPECT_EQ(handler.status, 200);
  EXPECT_TRUE(call.replies.empty()) << "the headers wait for the first bytes";
  take(ExtProcPart::kResponseBody, "data: 1\n\n", false);
  ASSERT_EQ(call.replies.size(), 2U);
  EXPECT_EQ(call.replies[0].part, 2U);
  EXPECT_EQ(call.replies[1].body, "data: 1\n\n");
  EXPECT_FALSE(call.replies[1].ends);
  take(ExtProcPart::kResponseBody, "data: [DONE]\n\n", true);
  ASSERT_EQ(call.replies.size(), 3U);
  EXPECT_EQ(call.replies[2].body, "data: [DONE]\n\n");
  EXPECT_TRUE(call.replies[2].ends);
  EXPECT_TRUE(handler.ended);
  EXPECT_EQ(call.finished, net::GrpcStatus::kOk);
  EXPECT_EQ(handler.gone, 0);
}

TEST_F(EnvoyExchangeTest, InStreamedModeEachPieceHasOneAnswer) {
  headers(BodySendMode::kFullDuplexStreamed, BodySendMode::kStreamed);
  take(ExtProcPart::kRequestBody, "0123456789", true);
  pick("0123456789");
  call.replies.clear();
  answer_head("200", "text/event-stream");
  ASSERT_EQ(call.replies.size(), 1U) << "Envoy waits for it";
  take(ExtProcPart::kResponseBody, "a", false);
  ASSERT_EQ(call.replies.size(), 2U);
  EXPECT_TRUE(call.replies[1].replaces) << "it was kept back";
  EXPECT_EQ(call.replies[1].body, "");
  exchange.start(200, {}, {});
  exchange.write("a");
  handler.starts = &exchange;
  take(ExtProcPart::kResponseBody, "b", false);
  ASSERT_EQ(call.replies.size(), 3U);
  EXPECT_EQ(call.replies[2].body, "ab");
  take(ExtProcPart::kResponseBody, "c", true);
  ASSERT_EQ(call.replies.size(), 4U);
  EXPECT_FALSE(call.replies[3].replaces) << "it is what came";
  EXPECT_EQ(call.finished, net::GrpcStatus::kOk);
}

TEST_F(EnvoyExchangeTest, EnvoysOwnAnswerForAReplicaThatIsNotReachedIsAFaultOfTheReplica) {
  ask();
  answer_head("503", "text/plain");
  EXPECT_EQ(handler.status, 0) << "the body tells who answers";
  take(ExtProcPart::kResponseBody, "upstream connect error or disconnect/reset before headers", true);
  EXPECT_EQ(handler.fault, net::ClientFault::kConnect);
  EXPECT_EQ(handler.status, 0);
}

TEST_F(EnvoyExchangeTest, AnAnswerOfEnvoyToARequestThatWaitsIsPassedOnAndEndsIt) {
  headers();
  take(ExtProcPart::kRequestBody, "0123456789", true);
  answer_head("504", "text/plain");
  EXPECT_EQ(handler.gone, 1);
  take(ExtProcPart::kResponseBody, "upstream request timeout", true);
  ASSERT_EQ(call.replies.size(), 2U);
  EXPECT_EQ(call.replies[0].part, 2U);
  EXPECT_EQ(call.replies[1].body, "upstream request timeout");
  EXPECT_TRUE(call.replies[1].ends);
  EXPECT_EQ(call.finished, net::GrpcStatus::kOk);
  EXPECT_EQ(handler.status, 0);
}

TEST_F(EnvoyExchangeTest, A503OfTheReplicaIsItsAnswer) {
  ask();
  answer_head("503", "text/plain");
  take(ExtProcPart::kResponseBody, "Service Unavailable", true);
  EXPECT_FALSE(handler.fault);
  EXPECT_EQ(handler.status, 503);
  EXPECT_TRUE(handler.ended);
}

TEST_F(EnvoyExchangeTest, ARefusalIsAnsweredByEnvoy) {
  headers();
  take(ExtProcPart::kRequestBody, "0123456789", true);
  const net::Field fields[] = {{"Retry-After", "7"}};
  exchange.respond(429, fields, "no");
  ASSERT_EQ(call.replies.size(), 1U);
  EXPECT_EQ(call.replies[0].status, 429U);
  EXPECT_EQ(call.replies[0].set.at("Retry-After"), "7");
  EXPECT_EQ(call.replies[0].immediate_body, "no");
  EXPECT_EQ(call.finished, net::GrpcStatus::kOk);
}

TEST_F(EnvoyExchangeTest, AClientThatLeavesIsReportedOnce) {
  ask();
  exchange.gone();
  exchange.gone();
  EXPECT_EQ(handler.gone, 1);
  EXPECT_FALSE(call.finished) << "the call is gone";
}

TEST_F(EnvoyExchangeTest, AnAbortedAnswerIsAnErrorForEnvoyUnlessTheGatewayLeaves) {
  ask();
  handler.starts = &exchange;
  answer_head("200", "text/event-stream");
  take(ExtProcPart::kResponseBody, "data: 1\n\n", false);
  exchange.abort();
  EXPECT_EQ(call.finished, net::GrpcStatus::kUnavailable);
}

TEST_F(EnvoyExchangeTest, AGatewayThatLeavesLetsEnvoyGoOnAloneAfterThePieceThatIsOnItsWay) {
  ask();
  handler.starts = &exchange;
  answer_head("200", "text/event-stream");
  take(ExtProcPart::kResponseBody, "data: 1\n\n", false);
  context.leaves = true;
  exchange.abort();
  EXPECT_FALSE(call.finished);
  call.replies.clear();
  take(ExtProcPart::kResponseBody, "data: 2\n\n", false);
  ASSERT_EQ(call.replies.size(), 1U);
  EXPECT_EQ(call.replies[0].body, "data: 2\n\n");
  EXPECT_FALSE(call.replies[0].ends);
  EXPECT_EQ(call.finished, net::GrpcStatus::kOk);
}

TEST_F(EnvoyExchangeTest, ARequestWithoutAnAnswerGoesOnWhenTheGatewayLeaves) {
  ask();
  call.replies.clear();
  context.leaves = true;
  exchange.respond(503, {}, "the gateway stops");
  EXPECT_FALSE(call.finished);
  answer_head("200", "text/event-stream");
  ASSERT_EQ(call.replies.size(), 1U);
  EXPECT_EQ(call.replies[0].part, 2U);
  EXPECT_FALSE(call.finished) << "its first piece may be on its way";
  exchange.let_go();
  EXPECT_EQ(call.finished, net::GrpcStatus::kOk);
}

TEST_F(EnvoyExchangeTest, ATooLargeBodyIsRefusedBeforeAllOfItHasCome) {
  context.limits.body_bytes = 100;
  headers();
  take(ExtProcPart::kRequestBody, std::string(101, 'x'), false);
  ASSERT_EQ(call.replies.size(), 1U);
  EXPECT_EQ(call.replies[0].status, 413U);
  EXPECT_EQ(handler.requests, 0);
}

}  // namespace
}  // namespace penstock::gateway
