#include "api/prefix_body.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace penstock::api {
namespace {

using Json = nlohmann::ordered_json;
constexpr Endpoint kChat = Endpoint::kChatCompletions, kCompletion = Endpoint::kCompletions;

std::string text_of(Endpoint endpoint, const std::string& body) {
  RequestReader reader;
  InferenceRequest request;
  EXPECT_TRUE(reader.read(endpoint, body, request)) << body;
  return request.text;
}

std::string chat(const Json& messages, const Json& more = Json::object()) {
  Json body{{"model", "m"}, {"messages", messages}, {"stream", true}, {"user", "ann"}, {"max_tokens", 99}};
  body.update(more);
  return body.dump();
}

const Json kTalk = {{{"role", "system"}, {"content", std::string(100, 's')}},
                    {{"role", "user"}, {"content", std::string(200, 'u')}},
                    {{"role", "assistant"}, {"content", "yes"}},
                    {{"role", "user"}, {"content", "and?"}}};

TEST(PrefixBody, OfAChatIsItsLeadingMessagesWithTheLastOneCut) {
  const auto made = prefix_body(kChat, chat(kTalk), 200);
  ASSERT_TRUE(made);
  EXPECT_EQ(made->text_bytes, 200U);
  const Json body = Json::parse(made->body);
  ASSERT_EQ(body["messages"].size(), 2U);
  EXPECT_EQ(body["messages"][0], kTalk[0]);
  EXPECT_EQ(body["messages"][1]["role"], "user");
  EXPECT_EQ(body["max_tokens"], 1);
  EXPECT_EQ(text_of(kChat, made->body).substr(0, 200), text_of(kChat, chat(kTalk)).substr(0, 200));
}

TEST(PrefixBody, LeavesOutUserAndSamplingParameters) {
  const Json body = Json::parse(prefix_body(kChat, chat(kTalk, {{"session_id", "s"}, {"cache_salt", "c"}}), 200)->body);
  for (const char* name : {"stream", "user", "session_id"}) EXPECT_FALSE(body.contains(name)) << name;
  EXPECT_FALSE(body.contains("cache_salt"));
}

TEST(PrefixBody, WithinTheFirstMessageEndsWithAUsersWord) {
  const auto made = prefix_body(kChat, chat(kTalk), 64);
  ASSERT_TRUE(made);
  EXPECT_EQ(made->text_bytes, 64U);
  const Json messages = Json::parse(made->body)["messages"];
  ASSERT_EQ(messages.size(), 2U);
  EXPECT_EQ(messages[0]["content"], std::string(64 - 7, 's'));
  EXPECT_EQ(messages[1]["role"], "user");
}

TEST(PrefixBody, OfAWholeChatIsAllOfIt) {
  const std::string body = chat(kTalk);
  const auto made = prefix_body(kChat, body, text_of(kChat, body).size());
  ASSERT_TRUE(made);
  EXPECT_EQ(Json::parse(made->body)["messages"], kTalk);
}

TEST(PrefixBody, KeepsToolsWhichStandInFront) {
  const Json tools = {{"tools", {{{"type", "function"}, {"function", {{"name", "z"}, {"a", 1}}}}}}};
  const std::string body = chat(kTalk, tools);
  const auto made = prefix_body(kChat, body, 150);
  ASSERT_TRUE(made);
  EXPECT_EQ(made->text_bytes, 150U);
  EXPECT_EQ(Json::parse(made->body)["tools"].dump(), tools["tools"].dump());
}

TEST(PrefixBody, LeavesOutAMessageThatCannotBeCut) {
  const Json messages = {{{"role", "system"}, {"content", "short"}},
                         {{"role", "user"},
                          {"content",
                           {{{"type", "text"}, {"text", std::string(300, 'a')}},
                            {{"type", "image_url"}, {"image_url", {{"url", std::string(300, 'b')}}}}}}}};
  const auto made = prefix_body(kChat, chat(messages), 256);
  ASSERT_TRUE(made);
  EXPECT_EQ(made->text_bytes, std::string{"system\nshort\nuser\n"}.size());
  EXPECT_EQ(Json::parse(made->body)["messages"].size(), 2U);
}

TEST(PrefixBody, OfACompletionIsItsTextCutBetweenCharacters) {
  const auto made = prefix_body(kCompletion, R"({"model":"m","prompt":"aääää"})", 4);
  ASSERT_TRUE(made);
  EXPECT_EQ(made->text_bytes, 3U);
  EXPECT_EQ(Json::parse(made->body)["prompt"], "aä");
}

TEST(PrefixBody, OfTokenNumbersIsTheFirstOfThem) {
  const auto made = prefix_body(kCompletion, R"({"model":"m","prompt":[7,8,9]})", 8);
  ASSERT_TRUE(made);
  EXPECT_EQ(Json::parse(made->body)["prompt"], (Json{7, 8}));
}

TEST(PrefixBody, IsEmptyForSeveralPrompts) {
  EXPECT_FALSE(prefix_body(kCompletion, R"({"model":"m","prompt":["one","two"]})", 3));
}

}  // namespace
}  // namespace penstock::api
