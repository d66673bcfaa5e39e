#include "api/answer.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "api/json_text.h"

namespace penstock::api {
namespace {

using nlohmann::json;

const AnswerFrame kChat{"chatcmpl-1", "org/m", 1700000000, true};
const AnswerFrame kCompletion{"cmpl-1", "m", 1700000000, false};

std::string all_events(const AnswerFrame& frame) {
  std::string out;
  append_first_event(out, frame);
  append_text_event(out, frame, "Hi\n");
  append_finish_event(out, frame, FinishReason::kLength);
  append_usage_event(out, frame, {7, 2, 4});
  out += kDoneEvent;
  return out;
}

TEST(Answer, EndsAnyChoice) {
  for (const AnswerFrame& frame : {kChat, kCompletion}) {
    std::string event;
    append_finish_event(event, frame, FinishReason::kLength, 3);
    EXPECT_NE(event.find(R"("choices":[{"index":3,)"), std::string::npos) << event;
  }
}

TEST(Answer, StreamsAChatAsVllmDoes) {
  const std::string head =
      R"(data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1700000000,"model":"org/m","choices":[)";
  EXPECT_EQ(all_events(kChat),
            head +
                R"({"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]})"
                "\n\n" +
                head +
                R"({"index":0,"delta":{"content":"Hi\n"},"logprobs":null,"finish_reason":null}]})"
                "\n\n" +
                head +
                R"({"index":0,"delta":{},"logprobs":null,"finish_reason":"length"}]})"
                "\n\n" +
                head +
                R"(],"usage":{"prompt_tokens":7,"total_tokens":9,"completion_tokens":2,)"
                R"("prompt_tokens_details":{"cached_tokens":4}}})"
                "\n\ndata: [DONE]\n\n");
}

TEST(Answer, StreamsACompletionAsVllmDoes) {
  const std::string head =
      R"(data: {"id":"cmpl-1","object":"text_completion","created":1700000000,"model":"m","choices":[)";
  EXPECT_EQ(all_events(kCompletion), head +
                                         R"({"index":0,"text":"Hi\n","logprobs":null,"finish_reason":null}]})"
                                         "\n\n" +
                                         head +
                                         R"({"index":0,"text":"","logprobs":null,"finish_reason":"length"}]})"
                                         "\n\n" +
                                         head +
                                         R"(],"usage":{"prompt_tokens":7,"total_tokens":9,"completion_tokens":2,)"
                                         R"("prompt_tokens_details":{"cached_tokens":4}}})"
                                         "\n\ndata: [DONE]\n\n");
}

TEST(Answer, ACompleteAnswerIsOneDocument) {
  const json chat = json::parse(whole_answer(kChat, "a \"b\"", FinishReason::kStop, {5, 3, 1}, R"({"a":[1]})"));
  EXPECT_EQ(chat["object"], "chat.completion");
  EXPECT_EQ(chat["choices"][0]["message"]["role"], "assistant");
  EXPECT_EQ(chat["choices"][0]["message"]["content"], "a \"b\"");
  EXPECT_EQ(chat["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(chat["usage"]["total_tokens"], 8);
  EXPECT_EQ(chat["usage"]["prompt_tokens_details"]["cached_tokens"], 1);
  EXPECT_EQ(chat["kv_transfer_params"]["a"][0], 1);
  const json completion = json::parse(whole_answer(kCompletion, "x", FinishReason::kLength, {5, 3, 1}));
  EXPECT_EQ(completion["object"], "text_completion");
  EXPECT_EQ(completion["choices"][0]["text"], "x");
  EXPECT_EQ(completion["choices"][0]["finish_reason"], "length");
  EXPECT_FALSE(completion.contains("kv_transfer_params"));
}

TEST(Answer, ErrorsHaveOpenAisFormat) {
  EXPECT_EQ(error_body({400, "invalid_request_error", "", "say \"what\"", "messages[0]"}),
            R"({"error":{"message":"say \"what\"","type":"invalid_request_error","param":"messages[0]","code":null}})");
  EXPECT_EQ(error_body({404, "invalid_request_error", "model_not_found", "none", ""}),
            R"({"error":{"message":"none","type":"invalid_request_error","param":null,"code":"model_not_found"}})");
}

TEST(Answer, OnlyBodiesThatAreNotEncodedAreRead) {
  EXPECT_FALSE(encoding_error(""));
  EXPECT_FALSE(encoding_error("identity"));
  EXPECT_FALSE(encoding_error("Identity"));
  for (const std::string coding : {"gzip", "identity, gzip", "identities", "ident"}) {
    const auto error = encoding_error(coding);
    ASSERT_TRUE(error) << coding;
    EXPECT_EQ(error->status, 415);
    EXPECT_EQ(error->message, "Content-Encoding " + coding + " is not supported; send the body uncompressed");
  }
  EXPECT_LT(encoding_error(std::string(5000, 'x'))->message.size(), 150U);
}

TEST(Answer, ListsTheModel) {
  const json models = json::parse(models_body("org/\"m\"", 5, 4096));
  EXPECT_EQ(models["object"], "list");
  EXPECT_EQ(models["data"][0]["id"], "org/\"m\"");
  EXPECT_EQ(models["data"][0]["object"], "model");
  EXPECT_EQ(models["data"][0]["max_model_len"], 4096);
}

TEST(JsonString, ReadsBackAsItWas) {
  std::string text;
  for (int c = 0; c < 128; ++c) text += static_cast<char>(c);
  text += "é€😀";
  std::string written;
  append_json_string(written, text);
  EXPECT_EQ(json::parse(written).get<std::string>(), text);
  std::string read;
  ASSERT_TRUE(append_unescaped(read, std::string_view{written}.substr(1, written.size() - 2)));
  EXPECT_EQ(read, text);
}

TEST(JsonString, EncodesCodePointsOfEachLength) {
  const std::string escaped = R"(\u0000\u007f\u0080\u07ff\u0800\ud7ff\ue000\uFFFF\ud800\udc00\uDBFF\uDFFF)";
  std::string read;
  ASSERT_TRUE(append_unescaped(read, escaped));
  EXPECT_EQ(read, json::parse('"' + escaped + '"').get<std::string>());
  EXPECT_TRUE(has_good_escapes(escaped));
}

TEST(JsonNumber, IsWhatTheGrammarSays) {
  for (const char* number : {"0", "-0", "10", "-1.5", "1e5", "1.25E-07", "123456789012345678901234567890"})
    EXPECT_EQ(kind_of(number), Kind::kNumber) << number;
  for (const char* number : {"", "-", "01", "1.", ".5", "+1", "1e", "1e+", "0x1", "NaN", "1 2", "--1"})
    EXPECT_EQ(kind_of(number), Kind::kNone) << number;
}

}  // namespace
}  // namespace penstock::api
