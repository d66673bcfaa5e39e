// Prompts near the limit of a model's context, which an engine counts before they are admitted.
#include <algorithm>

#include "gateway/gateway_testing.h"

namespace penstock::gateway {
namespace {

using namespace std::chrono_literals;

// The context has 32,768 tokens: at the prior of four bytes per token, this prompt may fit or not.
const std::string kNear(120'000, 'x');

bool counts(const std::string& request) { return request.starts_with("POST /tokenize "); }

// The usage keeps the estimate at four bytes per token.
void answer_near(Peer& peer) {
  peer.send(with_length("200 OK", api::whole_answer(kFrame, "hello", api::FinishReason::kStop, {30'000, 3, 4}, {})));
}

// Answers with the count, or with the status if that is not 200.
TestReplica::Script engine(int count, std::string_view status = "200 OK") {
  return [=](Peer& peer, const std::string& request, int) {
    if (!counts(request)) return answer_near(peer);
    peer.send(with_length(status, R"({"count":)" + std::to_string(count) + R"(,"max_model_len":32768,"tokens":[1]})"));
  };
}

TEST(PromptCount, DecidesWhetherAPromptFits) {
  TestReplica replica{engine(32'000)};
  TestGateway gateway{{spec_of(replica, "r1")}};
  EXPECT_EQ(ask(gateway, chat_body(kNear, R"(,"max_tokens":768,"temperature":0)")).status, 200);
  const auto refused = ask(gateway, chat_body(kNear, R"(,"max_tokens":769)"));
  EXPECT_EQ(refused.status, 400);
  EXPECT_NE(refused.body.find("context_length_exceeded"), std::string::npos) << refused.body;
  EXPECT_NE(refused.body.find("32769 tokens"), std::string::npos) << refused.body;
  const auto requests = replica.requests();
  ASSERT_EQ(requests.size(), 3U) << "the second prompt is counted and not sent";
  EXPECT_TRUE(counts(requests[0]) && !counts(requests[1]) && counts(requests[2]));
  EXPECT_TRUE(requests[0].ends_with(R"({"model":"m","messages":[{"role":"user","content":")" + kNear + R"("}]})"));
}

TEST(PromptCount, IsNotRequestedFarFromTheLimit) {
  TestReplica replica{engine(40'000)};
  TestGateway gateway{{spec_of(replica, "r1")}};
  EXPECT_EQ(ask(gateway, chat_body(std::string(80'000, 'x'), R"(,"max_tokens":4000)")).status, 200);
  EXPECT_EQ(ask(gateway, chat_body()).status, 200);
  EXPECT_EQ(ask(gateway, chat_body(std::string(600'000, 'x'))).status, 400) << "no tokenizer could fit it";
  for (const std::string& request : replica.requests()) EXPECT_FALSE(counts(request));
}

TEST(PromptCount, IsRequestedOnceFromAnEngineWithoutATokenizer) {
  TestReplica replica{engine(0, "404 Not Found")};
  TestGateway gateway{{spec_of(replica, "r1")}};
  for (int i = 0; i < 3; ++i) EXPECT_EQ(ask(gateway, chat_body(kNear)).status, 200) << "the engine decides";
  const auto requests = replica.requests();
  EXPECT_EQ(std::count_if(requests.begin(), requests.end(), counts), 1);
}

TEST(PromptCount, ThatFailsLeavesTheDecisionToTheEngine) {
  TestReplica replica{engine(0, "500 Internal Server Error")};
  TestGateway gateway{{spec_of(replica, "r1")}};
  for (int i = 0; i < 2; ++i) EXPECT_EQ(ask(gateway, chat_body(kNear)).status, 200);
  EXPECT_EQ(replica.requests().size(), 4U) << "the next prompt is counted again";
}

TEST(PromptCount, ThatIsLateDoesNotHoldUpTheRequestAndOthersAreServedMeanwhile) {
  std::promise<void> may_answer;
  const std::shared_future<void> answered = may_answer.get_future().share();
  TestReplica replica{[&](Peer& peer, const std::string& request, int number) {
    if (counts(request)) answered.wait();
    answer_well(peer, request, number);
  }};
  TestGateway gateway{{spec_of(replica, "r1")}};
  RawClient waiting{gateway.address()};
  waiting.send(chat_request(chat_body(kNear)));
  EXPECT_EQ(ask(gateway, chat_body()).status, 200);
  EXPECT_EQ(waiting.read_answer().status, 200);
  // A client that leaves while its prompt is counted ends its request.
  {
    RawClient leaves{gateway.address()};
    leaves.send(chat_request(chat_body(kNear)));
    while (replica.requests().size() < 4) std::this_thread::sleep_for(5ms);
  }
  EXPECT_EQ(ask(gateway, chat_body()).status, 200);
  may_answer.set_value();
  EXPECT_EQ(ask(gateway, chat_body()).status, 200);
  gateway.end();
}

TEST(PromptCount, OfALargeBodyIsPreparedBesideTheDataPath) {
  TestReplica replica{engine(30'000)};
  TestGateway gateway{{spec_of(replica, "r1")}};
  EXPECT_EQ(ask(gateway, chat_body(std::string(400'000, 'x'))).status, 200);
  ASSERT_EQ(replica.requests().size(), 2U);
  EXPECT_TRUE(counts(replica.requests()[0]));
}

TEST(PromptCount, HasTheToolsOfTheRequest) {
  EXPECT_EQ(api::tokenize_body(R"( {"stream":true,"model":"m", "tools":[{"a":1}],"priority":3,"messages":[1, 2]} )"),
            R"({"model":"m","tools":[{"a":1}],"messages":[1, 2]})");
  EXPECT_EQ(api::tokenize_body("[]"), "");
  EXPECT_EQ(api::tokenize_body("{}"), "");
}

}  // namespace
}  // namespace penstock::gateway
