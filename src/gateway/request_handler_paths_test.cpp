// Other paths than those of chats and completions: where they go, what they are taken to cost, and what they cost.
#include "gateway/gateway_testing.h"

namespace penstock::gateway {
namespace {

struct Case {
  const char* path;
  const char* body;
  const char* answer;
  std::uint64_t prompt_tokens, cached_tokens, output_tokens;
};

const Case kCases[] = {
    {"/v1/embeddings", R"({"model":"m","input":["one","two"]})",
     R"({"object":"list","data":[],"usage":{"prompt_tokens":6,"total_tokens":6}})", 6, 0, 0},
    {"/v1/rerank", R"({"model":"m","query":"q","documents":["a","b"]})", R"({"results":[],"usage":{"total_tokens":5}})",
     5, 0, 0},
    {"/v1/score", R"({"model":"m","text_1":"a","text_2":"b"})",
     R"({"data":[],"usage":{"prompt_tokens":4,"total_tokens":4,"completion_tokens":0}})", 4, 0, 0},
    {"/v1/responses", R"({"model":"m","input":"hi"})",
     R"({"output":[],"usage":{"input_tokens":9,"input_tokens_details":{"cached_tokens":8},"output_tokens":3}})", 9, 8,
     3},
    {"/v1/messages", R"({"model":"m","max_tokens":50,"messages":[{"role":"user","content":"hi"}]})",
     R"({"content":[],"usage":{"input_tokens":1,"cache_read_input_tokens":8,"output_tokens":3}})", 9, 8, 3},
};

RawClient::Answer ask_at(const TestGateway& gateway, std::string_view path, std::string_view body) {
  RawClient client{gateway.address()};
  client.send(request_to(path, body));
  return client.read_answer();
}

TEST(Paths, EachIsForwardedUnchangedAndCostsTheReportedUsage) {
  for (const Case& each : kCases) {
    TestReplica replica{[&](Peer& peer, const std::string&, int) { peer.send(with_length("200 OK", each.answer)); }};
    TestGateway gateway{{spec_of(replica, "r1")}};
    const auto answer = ask_at(gateway, each.path, each.body);
    EXPECT_EQ(answer.status, 200) << answer.body;
    EXPECT_EQ(answer.body, each.answer);
    ASSERT_EQ(replica.requests().size(), 1U);
    EXPECT_TRUE(replica.requests()[0].starts_with(std::string{"POST "} + each.path + " "));
    EXPECT_TRUE(replica.requests()[0].ends_with(each.body));
    const auto entries = gateway.closed(1);
    ASSERT_EQ(entries.size(), 1U);
    EXPECT_TRUE(entries[0].measured);
    EXPECT_EQ(entries[0].prompt_tokens, each.prompt_tokens) << each.path;
    EXPECT_EQ(entries[0].cached_tokens, each.cached_tokens) << each.path;
    EXPECT_EQ(entries[0].output_tokens, each.output_tokens) << each.path;
    gateway.end();
  }
}

TEST(Paths, EmbeddingsReserveNoOutput) {
  TestReplica replica{[](Peer& peer, const std::string&, int) { peer.send(with_length("200 OK", kCases[0].answer)); }};
  TestGateway gateway{{spec_of(replica, "r1")}};
  ask_at(gateway, "/v1/embeddings", R"({"model":"m","input":")" + std::string(400, 'a') + "\"}");
  const auto entries = gateway.closed(1);
  ASSERT_EQ(entries.size(), 1U);
  EXPECT_EQ(entries[0].reserved_tokens, 100U);
  gateway.end();
}

TEST(Paths, AStreamOfAResponseIsCountedByItsDeltas) {
  const std::string delta = "event: response.output_text.delta\ndata: {\"type\":\"x.delta\",\"delta\":\"a\"}\n\n";
  TestReplica replica{[&](Peer& peer, const std::string&, int) {
    peer.send(chunked_head() + chunk(delta) + chunk(delta) + chunk(delta) + "0\r\n\r\n");
  }};
  TestGateway gateway{{spec_of(replica, "r1")}};
  const auto answer = ask_at(gateway, "/v1/responses", R"({"model":"m","input":"hi","stream":true})");
  EXPECT_EQ(answer.body, delta + delta + delta);
  const auto entries = gateway.closed(1);
  ASSERT_EQ(entries.size(), 1U);
  EXPECT_EQ(entries[0].output_tokens, 3U);
  EXPECT_GE(entries[0].ttft_ms, 0.0);
  gateway.end();
}

TEST(Paths, PrefillReplicasGetNoEmbeddingRequests) {
  TestReplica prefill{answer_well}, decode{answer_well};
  GatewayOptions options = quiet_options();
  options.dispatch.interactive.queue_time = core::Duration{};
  TestGateway gateway{{spec_of(prefill, "p", signals::Role::kPrefill), spec_of(decode, "d", signals::Role::kDecode)},
                      options};
  EXPECT_EQ(ask_at(gateway, kCases[0].path, kCases[0].body).status, 503);
  gateway.end();
}

TEST(Paths, WithoutATextTheRequestIsRefused) {
  TestReplica replica{answer_well};
  TestGateway gateway{{spec_of(replica, "r1")}};
  for (const Case& each : kCases) EXPECT_EQ(ask_at(gateway, each.path, R"({"model":"m"})").status, 400) << each.path;
  EXPECT_EQ(ask_at(gateway, "/v1/images/generations", R"({"model":"m","prompt":"p"})").status, 404);
  EXPECT_TRUE(replica.requests().empty());
  gateway.end();
}

}  // namespace
}  // namespace penstock::gateway
