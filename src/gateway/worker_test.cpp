// Answers that a worker gives without a replica: their x-request-id, and bodies that it does not read.
#include "gateway/gateway_testing.h"

namespace penstock::gateway {
namespace {

RawClient::Answer answer_to(const TestGateway& gateway, const std::string& request) {
  RawClient client{gateway.address()};
  client.send(request);
  return client.read_answer();
}

TEST(Worker, EveryAnswerToAHeadThatWasReadHasTheClientsIdOrANewOne) {
  TestReplica replica{answer_well};
  GatewayOptions options = quiet_options();
  options.server.body_bytes = 1'000'000;
  options.anonymous = false;
  options.dispatch.tenants.resize(1);
  options.dispatch.tenants[0].name = "shop";
  options.api_keys.push_back({"sk-shop", 0});
  TestGateway gateway{{spec_of(replica, "r1")}, options};
  EXPECT_TRUE(gateway.wait_for(R"("models_complete":true)"));
  struct Case {
    std::string start;  // The request line and the first fields.
    int status;
  };
  const std::string post = "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n";
  const std::string key = "Authorization: Bearer sk-shop\r\n";
  const std::vector<Case> cases = {
      {"GET /v1/models HTTP/1.1\r\nHost: x\r\n" + key, 200},
      {"GET /v1/models HTTP/1.1\r\nHost: x\r\n", 401},
      {"GET /v1/models/none HTTP/1.1\r\nHost: x\r\n" + key, 404},
      {"GET /health HTTP/1.1\r\nHost: x\r\n", 200},
      {"GET /nothing HTTP/1.1\r\nHost: x\r\n", 404},
      {"GET /v1/chat/completions HTTP/1.1\r\nHost: x\r\n", 405},
      {post + "Content-Length: 2000000\r\n" + key, 413},
      {post + "Content-Length: 300000\r\n", 401},
  };
  for (const Case& one : cases) {
    const auto given = answer_to(gateway, one.start + "X-Request-ID: abc-1\r\n\r\n");
    EXPECT_EQ(given.status, one.status) << one.start;
    EXPECT_EQ(field_in(given.head, "x-request-id"), "abc-1") << one.start << given.head;
    for (const char* none : {"\r\n", "X-Request-ID: two words\r\n\r\n"}) {
      const auto made = answer_to(gateway, one.start + none);
      EXPECT_TRUE(field_in(made.head, "x-request-id").starts_with("req-")) << one.start << made.head;
    }
  }
  const auto unread = answer_to(gateway, "GET / HTTP/1.1\r\nX-Request-ID: abc-1\r\n\r\n");
  EXPECT_EQ(unread.status, 400);
  EXPECT_EQ(field_in(unread.head, "x-request-id"), "") << "the head is malformed";
  gateway.end();
}

TEST(Worker, ACompressedBodyIsRefusedAsSuch) {
  TestReplica replica{answer_well};
  TestGateway gateway{{spec_of(replica, "r1")}};
  const auto refused = ask(gateway, "\x1f\x8b", "Content-Encoding: gzip\r\n");
  EXPECT_EQ(refused.status, 415);
  EXPECT_NE(refused.body.find("Content-Encoding gzip is not supported; send the body uncompressed"), std::string::npos)
      << refused.body;
  EXPECT_TRUE(replica.requests().empty());
  EXPECT_EQ(ask(gateway, chat_body(), "Content-Encoding: identity\r\n").status, 200);
  EXPECT_EQ(ask(gateway, chat_body(), "Content-Encoding:\r\n").status, 200);
  gateway.end();
}

}  // namespace
}  // namespace penstock::gateway
