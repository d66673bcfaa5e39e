#include "api/prompt_truncation.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "api/prompt_size.h"

namespace penstock::api {
namespace {

// Drops bytes of text; a byte of other fields counts as one.
std::optional<TruncatedPrompt> without_bytes(Endpoint endpoint, const std::string& body, double bytes) {
  RequestReader reader;
  InferenceRequest request;
  EXPECT_TRUE(reader.read(endpoint, body, request)) << body;
  EXPECT_TRUE(can_truncate(request)) << body;
  auto made = truncated_prompt(endpoint, body, {bytes, 1.0, 1.0});
  if (made) {
    InferenceRequest shorter;
    EXPECT_TRUE(reader.read(endpoint, made->body, shorter)) << made->body;
  }
  return made;
}

std::string completion(const std::string& body, double bytes) {
  const auto made = without_bytes(Endpoint::kCompletions, body, bytes);
  return made ? made->body : "none";
}

// A chat of messages such as "user:hi", in a body with other fields and spaces.
struct Chat {
  std::vector<std::string> messages;

  [[nodiscard]] std::string body() const {
    std::string text = R"({ "max_tokens" : 7,"messages": [ )";
    for (const std::string& message : messages) {
      if (text.back() == '}') text += " ,\n ";
      const std::size_t colon = message.find(':');
      text += R"({"role":")" + message.substr(0, colon) + R"(","content":")" + message.substr(colon + 1) + '"';
      if (message.find("call") != std::string::npos && message.starts_with("assistant"))
        text += R"(,"tool_calls":[{"id":"1","function":{"name":"f"}}])";
      text += '}';
    }
    return text + R"(],"model":"m", "x":[1 ,2]} )";
  }
};

Chat chat_of(std::vector<std::string> messages) { return {std::move(messages)}; }

void expect_left(const Chat& before, double bytes, const Chat& after) {
  const auto made = without_bytes(Endpoint::kChatCompletions, before.body(), bytes);
  ASSERT_EQ(made.has_value(), before.messages != after.messages);
  if (!made) return;
  EXPECT_EQ(made->body, after.body());
  EXPECT_EQ(made->messages, before.messages.size() - after.messages.size());
}

TEST(TruncatedChat, LosesItsOldestTurnsAndKeepsSystemMessagesAndOtherBytes) {
  const Chat whole =
      chat_of({"system:s", "user:a1", "assistant:b1", "user:a2", "assistant:b2", "developer:d", "user:a3"});
  // A turn has "user\na1\nassistant\nb1\n": 21 bytes.
  expect_left(whole, 1, chat_of({"system:s", "user:a2", "assistant:b2", "developer:d", "user:a3"}));
  expect_left(whole, 21, chat_of({"system:s", "user:a2", "assistant:b2", "developer:d", "user:a3"}));
  expect_left(whole, 22, chat_of({"system:s", "developer:d", "user:a3"}));
  expect_left(whole, 1e9, chat_of({"system:s", "developer:d", "user:a3"}));
}

TEST(TruncatedChat, DropsToolCallsTogetherWithTheirResults) {
  const Chat whole = chat_of({"user:a", "assistant:call", "tool:r1", "tool:r2", "assistant:b", "user:c"});
  expect_left(whole, 1, chat_of({"user:c"}));
  // Of the steps behind the last user message, the oldest go first, and the last one stays.
  const Chat agent = chat_of({"system:s", "user:task", "assistant:call 1", "tool:r1", "tool:r1", "assistant:call 2",
                              "tool:r2", "assistant:call 3", "tool:r3"});
  expect_left(agent, 1,
              chat_of({"system:s", "user:task", "assistant:call 2", "tool:r2", "assistant:call 3", "tool:r3"}));
  expect_left(agent, 1e9, chat_of({"system:s", "user:task", "assistant:call 3", "tool:r3"}));
}

TEST(TruncatedChat, ThatHasNothingToDropIsUnchanged) {
  for (const Chat& whole :
       {chat_of({"user:a"}), chat_of({"system:s", "user:a"}), chat_of({"system:s", "developer:d"}),
        chat_of({"user:a", "assistant:prefilled"}), chat_of({"assistant:b"}), chat_of({"user:a", "tool:r"})})
    expect_left(whole, 5, whole);
}

TEST(TruncatedChat, NeedsNoUserMessage) {
  expect_left(chat_of({"assistant:call", "tool:r", "assistant:b"}), 1, chat_of({"assistant:b"}));
  expect_left(chat_of({"assistant:hello", "user:a"}), 1, chat_of({"user:a"}));
}

TEST(TruncatedChat, CountsFieldsThatATemplateMayRender) {
  const std::string body = R"({"model":"m","messages":[{"role":"user","content":"a","name":")" + std::string(40, 'n') +
                           R"("},{"role":"user","content":"b"},{"role":"user","content":"c"}]})";
  const auto made = without_bytes(Endpoint::kChatCompletions, body, 30);
  ASSERT_TRUE(made);
  EXPECT_EQ(made->messages, 1U);
}

TEST(TruncatedCompletion, LosesItsBeginningBetweenTwoCodePoints) {
  EXPECT_EQ(completion(R"({"model":"m","prompt": "abcdef" ,"x":1})", 2), R"({"model":"m","prompt": "cdef" ,"x":1})");
  // Bytes of a character that are cut count whole.
  EXPECT_EQ(completion("{\"model\":\"m\",\"prompt\":\"a\u20acbc\"}", 2), "{\"model\":\"m\",\"prompt\":\"bc\"}");
  // Escapes are one code point, and a surrogate pair is one.
  EXPECT_EQ(completion(R"({"model":"m","prompt":"\n\"\\x"})", 2), R"({"model":"m","prompt":"\\x"})");
  EXPECT_EQ(completion(R"({"model":"m","prompt":"\ud83d\ude00xy\u00e9"})", 1), R"({"model":"m","prompt":"xy\u00e9"})");
  EXPECT_EQ(completion(R"({"model":"m","prompt":["abcdef"]})", 2), R"({"model":"m","prompt":["cdef"]})");
  EXPECT_EQ(completion(R"({"model":"m","prompt":"abc"})", 3), "none") << "nothing would be left";
  EXPECT_EQ(completion(R"({"model":"m","prompt":"abc"})", 1e18), "none");
}

TEST(TruncatedCompletion, LosesItsFirstTokenIds) {
  // A token id is four bytes of the text.
  EXPECT_EQ(completion(R"({"prompt":[ 10, 20 ,30,40],"model":"m"})", 8), R"({"prompt":[30,40],"model":"m"})");
  EXPECT_EQ(completion(R"({"prompt":[ 10, 20 ,30,40],"model":"m"})", 9), R"({"prompt":[40],"model":"m"})");
  EXPECT_EQ(completion(R"({"prompt":[[10,20,30]],"model":"m"})", 4), R"({"prompt":[[20,30]],"model":"m"})");
  EXPECT_EQ(completion(R"({"prompt":[10,20],"model":"m"})", 8), "none");
}

TEST(Truncation, IsForOnePromptWithoutMedia) {
  RequestReader reader;
  InferenceRequest request;
  const auto can = [&](Endpoint endpoint, std::string_view body) {
    EXPECT_TRUE(reader.read(endpoint, body, request)) << body;
    return can_truncate(request);
  };
  EXPECT_FALSE(can(Endpoint::kCompletions, R"({"model":"m","prompt":["a","b"]})"));
  EXPECT_FALSE(can(Endpoint::kCompletions, R"({"model":"m","prompt":[[1],[2]]})"));
  EXPECT_FALSE(can(Endpoint::kChatCompletions,
                   R"({"model":"m","messages":[{"role":"user","content":[{"type":"image_url",)"
                   R"("image_url":{"url":"http://x"}}]}]})"));
  EXPECT_FALSE(can(Endpoint::kResponses, R"({"model":"m","input":"a"})"));
  EXPECT_FALSE(can(Endpoint::kEmbeddings, R"({"model":"m","input":"a"})"));
  EXPECT_TRUE(can(Endpoint::kChatCompletions, R"({"model":"m","messages":[{"role":"user","content":[{"type":"text",)"
                                              R"("text":"a"}]}]})"));
}

}  // namespace
}  // namespace penstock::api
