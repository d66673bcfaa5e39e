// Prompts above the context of a model, where the policy is to truncate them.
#include <charconv>
#include <nlohmann/json.hpp>

#include "api/request.h"
#include "gateway/gateway_testing.h"

namespace penstock::gateway {
namespace {

using nlohmann::json;

GatewayOptions truncating_options(std::uint32_t context_tokens = 2'000) {
  GatewayOptions options = quiet_options();
  options.dispatch.models[0].context_tokens = context_tokens;
  options.dispatch.models[0].over_context = dispatch::OverContext::kTruncate;
  return options;
}

// A chat of so many turns of about 100 tokens.
std::string long_chat(int turns, std::size_t turn_bytes = 400) {
  json messages = json::array({{{"role", "system"}, {"content", "be kind"}}});
  for (int turn = 0; turn < turns; ++turn) {
    messages.push_back({{"role", "user"}, {"content", std::to_string(turn) + std::string(turn_bytes / 2, 'q')}});
    messages.push_back({{"role", "assistant"}, {"content", std::string(turn_bytes / 2, 'a')}});
  }
  messages.push_back({{"role", "user"}, {"content", "last"}});
  return json{{"temperature", 0.5}, {"messages", messages}, {"model", "m"}, {"max_tokens", 100}}.dump();
}

int number_in(const std::string& head, std::string_view name) {
  const std::string text = field_in(head, name);
  int number = 0;
  EXPECT_EQ(std::from_chars(text.data(), text.data() + text.size(), number).ec, std::errc{}) << head;
  return number;
}

bool is_tokenize(const std::string& request) { return request.starts_with("POST /tokenize "); }
json document_of(const std::string& request) { return json::parse(request.substr(request.find("\r\n\r\n") + 4)); }

// Answers a count with the bytes of the messages times a factor.
TestReplica::Script counting_engine(double tokens_per_byte) {
  return [=](Peer& peer, const std::string& request, int number) {
    if (!is_tokenize(request)) return answer_well(peer, request, number);
    const auto count =
        static_cast<int>(tokens_per_byte * static_cast<double>(document_of(request)["messages"].dump().size()));
    peer.send(with_length("200 OK", json{{"count", count}}.dump()));
  };
}

TestReplica::Script engine_without_tokenizer() {
  return [](Peer& peer, const std::string& request, int number) {
    if (!is_tokenize(request)) return answer_well(peer, request, number);
    peer.send(with_length("404 Not Found", "{}"));
  };
}

TEST(PromptTruncation, SendsTheNewestTurnsAndTellsTheClient) {
  TestReplica replica{engine_without_tokenizer()};
  TestGateway gateway{{spec_of(replica, "r1")}, truncating_options()};
  const std::string body = long_chat(40);
  const auto answer = ask(gateway, body);
  ASSERT_EQ(answer.status, 200) << answer.body;
  const json sent = document_of(replica.requests().back()), whole = json::parse(body);
  const std::size_t kept = sent["messages"].size(), before = whole["messages"].size();
  EXPECT_LT(kept, 40U);
  EXPECT_GT(kept, 10U);
  EXPECT_EQ(sent["messages"][0], whole["messages"][0]);
  EXPECT_EQ(sent["messages"][1]["role"], "user");
  for (std::size_t i = 1; i < kept; ++i) EXPECT_EQ(sent["messages"][i], whole["messages"][before - kept + i]);
  EXPECT_EQ(sent["temperature"], 0.5);
  EXPECT_EQ(field_in(answer.head, "x-penstock-truncated-messages"), std::to_string(before - kept));
  const int dropped = number_in(answer.head, "x-penstock-truncated-prompt-tokens");
  EXPECT_GT(dropped, 2'000);
  EXPECT_LT(dropped, 4'500);
  EXPECT_TRUE(gateway.wait_for(R"("truncated_prompts_total":1)"));
  EXPECT_TRUE(gateway.wait_for(R"("truncated_prompt_tokens_total":)" + std::to_string(dropped)));
  const std::string metrics = gateway.admin("/metrics");
  EXPECT_NE(metrics.find("penstock_truncated_prompts_total 1\n"), std::string::npos);
  EXPECT_NE(metrics.find("penstock_truncated_prompt_tokens_total " + std::to_string(dropped)), std::string::npos);

  const auto short_answer = ask(gateway, long_chat(1));
  EXPECT_EQ(short_answer.status, 200);
  EXPECT_EQ(field_in(short_answer.head, "x-penstock-truncated-prompt-tokens"), "");
  EXPECT_EQ(field_in(short_answer.head, "x-penstock-truncated-messages"), "");
}

TEST(PromptTruncation, PlannersAndBudgetsSeeTheTruncatedPrompt) {
  TestReplica replica{engine_without_tokenizer()};
  GatewayOptions options = truncating_options(8'000);
  options.dispatch.interactive.budget.tokens_per_minute = 20'000;
  TestGateway gateway{{spec_of(replica, "r1")}, options};
  ASSERT_EQ(ask(gateway, long_chat(300)).status, 200) << "the whole prompt would exceed the budget";
  const json sent = document_of(replica.requests().back());
  const json events = json::parse(gateway.admin("/penstock/v1/traffic?after=0"))["events"];
  json arrival;
  for (const json& event : events)
    if (event[0] == "arrival") arrival = event;
  ASSERT_TRUE(arrival.is_array()) << events.dump();
  EXPECT_LT(arrival[6], 6'000);
  api::RequestReader reader;
  api::InferenceRequest request;
  ASSERT_TRUE(reader.read(api::Endpoint::kChatCompletions, sent.dump(), request));
  EXPECT_EQ(arrival[7].size(), request.text.size() / 1'024) << "one key for each 256 tokens of the sent prompt";
}

TEST(PromptTruncation, OfACountedPromptIsCountedAgain) {
  // Twice as many tokens as the estimate of four bytes for each.
  TestReplica replica{counting_engine(0.5)};
  TestGateway gateway{{spec_of(replica, "r1")}, truncating_options()};
  const auto answer = ask(gateway, long_chat(18));
  ASSERT_EQ(answer.status, 200) << answer.body;
  const auto requests = replica.requests();
  ASSERT_GE(requests.size(), 3U);
  EXPECT_TRUE(is_tokenize(requests[0]) && is_tokenize(requests[1]));
  const std::string sent = document_of(requests.back())["messages"].dump();
  EXPECT_LE(sent.size() / 2, 1'900U) << "it fits by the count";
  EXPECT_GT(sent.size() / 2, 1'200U);
  EXPECT_NE(field_in(answer.head, "x-penstock-truncated-messages"), "");
}

TEST(PromptTruncation, AnswersARequestOfWhichNothingMayBeDroppedWith400) {
  TestReplica replica{engine_without_tokenizer()};
  TestGateway gateway{{spec_of(replica, "r1")}, truncating_options()};
  const auto refused = ask(gateway, chat_body(std::string(100'000, 'x')));
  EXPECT_EQ(refused.status, 400);
  EXPECT_NE(refused.body.find("context_length_exceeded"), std::string::npos) << refused.body;
  std::string body = long_chat(40);
  body.replace(body.find("last"), 4, std::string(100'000, 'x'));
  const auto again = ask(gateway, body);
  EXPECT_EQ(again.status, 400);
  EXPECT_NE(again.body.find("after truncation"), std::string::npos) << again.body;
  for (const std::string& request : replica.requests()) EXPECT_TRUE(is_tokenize(request));
  EXPECT_FALSE(gateway.admin("/metrics").find("penstock_truncated_prompts_total 0\n") == std::string::npos);
}

TEST(PromptTruncation, CutsTheBeginningOfACompletion) {
  TestReplica replica{engine_without_tokenizer()};
  TestGateway gateway{{spec_of(replica, "r1")}, truncating_options()};
  const auto complete = [&](const json& prompt) {
    RawClient client{gateway.address()};
    client.send(request_to("/v1/completions", json{{"model", "m"}, {"prompt", prompt}, {"max_tokens", 100}}.dump()));
    return client.read_answer();
  };
  const auto answer = complete(std::string(50'000, 'x') + "end");
  ASSERT_EQ(answer.status, 200) << answer.body;
  const std::string sent = document_of(replica.requests().back())["prompt"];
  EXPECT_TRUE(sent.ends_with("xend"));
  EXPECT_LT(sent.size(), 4 * 1'900U);
  EXPECT_GT(sent.size(), 5'000U);
  EXPECT_EQ(field_in(answer.head, "x-penstock-truncated-messages"), "");
  EXPECT_NE(field_in(answer.head, "x-penstock-truncated-prompt-tokens"), "");

  json ids = json::array();
  for (int id = 0; id < 3'000; ++id) ids.push_back(id);
  const auto of_ids = complete(ids);
  ASSERT_EQ(of_ids.status, 200) << of_ids.body;
  EXPECT_EQ(document_of(replica.requests().back())["prompt"].size(), 1'900U) << "token ids are exact";
  EXPECT_EQ(document_of(replica.requests().back())["prompt"].back(), 2'999);
  EXPECT_EQ(field_in(of_ids.head, "x-penstock-truncated-prompt-tokens"), "1100");
  EXPECT_EQ(complete(json::array({std::string(100'000, 'x'), "y"})).status, 400) << "several prompts are rejected";
}

TEST(PromptTruncation, OfALargeBodyRunsBesideTheDataPathAndItsMemoryIsCounted) {
  TestReplica replica{engine_without_tokenizer()};
  TestGateway gateway{{spec_of(replica, "r1")}, truncating_options(100'000)};
  const std::string body = long_chat(400, 4'000);
  ASSERT_GT(body.size(), 1'000'000U);
  const auto answer = ask(gateway, body);
  ASSERT_EQ(answer.status, 200) << answer.body;
  const std::string sent = replica.requests().back();
  EXPECT_LT(sent.size(), 400'000U);
  EXPECT_GT(sent.size(), 200'000U);
  EXPECT_EQ(document_of(sent)["messages"].back()["content"], "last");
  EXPECT_NE(field_in(answer.head, "x-penstock-truncated-messages"), "");
  EXPECT_EQ(ask(gateway, chat_body(std::string(2'000'000, 'x'))).status, 400);
  EXPECT_TRUE(gateway.wait_until([&](const std::string&) {
    return gateway.admin("/metrics").find("penstock_memory_held_bytes 0\n") != std::string::npos;
  }));
}

}  // namespace
}  // namespace penstock::gateway
