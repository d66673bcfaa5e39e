// Replicas that are added to a running gateway and warm up before they get requests.
#include <atomic>

#include "gateway/gateway_testing.h"

namespace penstock::gateway {
namespace {

using namespace std::chrono_literals;

GatewayOptions warming_options() {
  GatewayOptions options = quiet_options();
  options.warm_up = true;
  options.warm_up_prompts = *parse_warm_up_prompts(R"({"messages":[{"role":"user","content":"first"}]})"
                                                   "\n\n"
                                                   R"({"model":"m","prompt":"second","max_tokens":4})"
                                                   "\n"
                                                   R"({"model":"another","prompt":"third"})",
                                                   "prompts.jsonl");
  return options;
}

bool has(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

TEST(ReplicaWarmUp, AReplicaThatIsAddedLaterAnswersThePromptsBeforeItGetsRequests) {
  TestReplica first{answer_well};
  std::atomic<bool> answers = false;
  TestReplica added{[&](Peer& peer, const std::string&, int) {
    while (!answers) std::this_thread::sleep_for(1ms);
    peer.send(good_answer());
  }};
  TestGateway gateway{{spec_of(first, "first")}, warming_options()};
  (*gateway).set_replicas({spec_of(first, "first"), spec_of(added, "added")});
  for (int i = 0; i < 2000 && added.requests().empty(); ++i) std::this_thread::sleep_for(5ms);
  EXPECT_TRUE(gateway.wait_for(R"("phase":"warming")"));
  for (int i = 0; i < 20; ++i) EXPECT_EQ(ask(gateway, chat_body()).status, 200);
  EXPECT_EQ(added.requests().size(), 1U);
  answers = true;
  EXPECT_TRUE(gateway.wait_until([](const std::string& overview) { return !has(overview, R"("phase":"warming")"); }));
  const auto requests = added.requests();
  ASSERT_EQ(requests.size(), 2U);
  EXPECT_TRUE(has(requests[0], "POST /v1/chat/completions ") && has(requests[0], "first")) << requests[0];
  EXPECT_TRUE(has(requests[0], R"("max_tokens":1)") && has(requests[0], R"("model":"m")")) << requests[0];
  EXPECT_TRUE(has(requests[1], "POST /v1/completions ") && has(requests[1], R"("max_tokens":4)")) << requests[1];
  for (int i = 0; i < 200 && added.requests().size() == 2; ++i) EXPECT_EQ(ask(gateway, chat_body()).status, 200);
  EXPECT_GT(added.requests().size(), 2U);
  gateway.end();
}

TEST(ReplicaWarmUp, ReplicasOfTheStartServeAtOnce) {
  TestReplica one{answer_well}, two{answer_well};
  TestGateway gateway{{spec_of(one, "one"), spec_of(two, "two")}, warming_options()};
  std::this_thread::sleep_for(300ms);
  EXPECT_TRUE(one.requests().empty() && two.requests().empty());
  EXPECT_FALSE(has(gateway.admin("/penstock/v1/overview"), R"("phase":"warming")"));
  gateway.end();
}

std::string metrics_after(int prompt_tokens) {
  return "vllm:num_requests_running 0\nvllm:num_requests_waiting 0\nvllm:prompt_tokens_total " +
         std::to_string(prompt_tokens) + "\n";
}

TEST(ReplicaWarmUp, AReplicaWhoseEngineRestartsAtTheSameAddressIsWarmedUpAgain) {
  TestReplica first{answer_well}, second{answer_well};
  first.set_metrics(metrics_after(100));
  second.set_metrics(metrics_after(100));
  GatewayOptions options = warming_options();
  options.scrape_interval = 10ms;
  TestGateway gateway{{spec_of(first, "first"), spec_of(second, "second")}, options};
  std::this_thread::sleep_for(300ms);
  EXPECT_TRUE(second.requests().empty());
  second.set_metrics(metrics_after(0));
  for (int i = 0; i < 2000 && second.requests().size() < 2; ++i) std::this_thread::sleep_for(5ms);
  EXPECT_TRUE(gateway.wait_until([](const std::string& overview) { return !has(overview, R"("phase":"warming")"); }));
  second.set_metrics(metrics_after(20));
  std::this_thread::sleep_for(300ms);
  const auto requests = second.requests();
  ASSERT_EQ(requests.size(), 2U) << "once";
  EXPECT_TRUE(has(requests[0], "first") && has(requests[1], "second"));
  EXPECT_TRUE(first.requests().empty());
  gateway.end();
}

TEST(ReplicaWarmUp, TheOnlyReplicaServesAtOnce) {
  TestReplica former{answer_well};
  TestReplica only{answer_well};
  TestGateway gateway{{spec_of(former, "former")}, warming_options()};
  gateway.set_replicas({spec_of(only, "only")});
  EXPECT_TRUE(only.requests().empty());
  EXPECT_EQ(ask(gateway, chat_body()).status, 200);
  gateway.end();
}

TEST(ReplicaWarmUp, ItEndsAfterItsTime) {
  TestReplica first{answer_well};
  TestReplica hung{[](Peer& peer, const std::string&, int) { peer.wait_until_closed(); }};
  GatewayOptions options = warming_options();
  options.warm_up_time = 300ms;
  TestGateway gateway{{spec_of(first, "first")}, options};
  (*gateway).set_replicas({spec_of(first, "first"), spec_of(hung, "hung")});
  for (int i = 0; i < 2000 && hung.requests().empty(); ++i) std::this_thread::sleep_for(5ms);
  EXPECT_EQ(hung.requests().size(), 1U);
  EXPECT_TRUE(gateway.wait_until([](const std::string& overview) {
    return has(overview, R"("id":"hung")") && !has(overview, R"("phase":"warming")");
  }));
  gateway.end();
}

TEST(WarmUpPrompts, BadLinesAreNamed) {
  const auto problem = [](std::string_view text) {
    const auto parsed = parse_warm_up_prompts(text, "p.jsonl");
    return parsed ? std::string{} : parsed.error().message();
  };
  EXPECT_EQ(problem(""), "");
  EXPECT_TRUE(has(problem("{\"prompt\":\"a\"}\n[1]"), "p.jsonl:2: is not a JSON object")) << problem("[1]");
  EXPECT_TRUE(has(problem("{\"input\":\"a\"}"), "p.jsonl:1: needs messages or prompt"));
  EXPECT_TRUE(has(problem("{\"prompt\":\"a\",\"messages\":[]}"), "needs messages or prompt"));
  EXPECT_TRUE(has(problem("{\"prompt\":\"a\",\"model\":1}"), "model is not a string"));
}

}  // namespace
}  // namespace penstock::gateway
