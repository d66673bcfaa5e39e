// Anthropic's Messages API: requests as they are read and changed, answers as they are written and observed.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "api/answer_watch.h"
#include "api/message_answer.h"
#include "api/request.h"

namespace penstock::api {
namespace {

using nlohmann::json;

core::Result<InferenceRequest> read_message(const std::string& fields, Endpoint endpoint = Endpoint::kMessages) {
  RequestReader reader;
  InferenceRequest request;
  if (auto done = reader.read(endpoint, R"({"model":"m",)" + fields + "}", request); !done)
    return tl::make_unexpected(done.error());
  return request;
}
InferenceRequest message_with(const std::string& content, const std::string& more = {}) {
  auto read = read_message(R"("max_tokens":9,"messages":[{"role":"user","content":)" + content + "}]" + more);
  EXPECT_TRUE(read) << read.error().message();
  return read ? *std::move(read) : InferenceRequest{};
}

TEST(MessageRequest, TheTextBeginsWithToolsAndSystemWhereverTheyAre) {
  const std::string system =
      R"("system":[{"type":"text","text":"Be"},{"type":"text","text":"brief","cache_control":{}}])";
  const std::string tools = R"("tools":[{"name":"t"}])", messages = R"("messages":[{"role":"user","content":"hi"}])";
  const std::string text = "[{\"name\":\"t\"}]\nsystem\nBe\nbrief\nuser\nhi\n";
  for (const auto& fields : {messages + "," + system + "," + tools, tools + "," + system + "," + messages,
                             system + "," + messages + "," + tools, tools + "," + messages + "," + system})
    EXPECT_EQ(read_message(fields + R"(,"max_tokens":1)")->text, text) << fields;
  EXPECT_EQ(message_with(R"("hi")", R"(,"system":"Be brief")").text, "system\nBe brief\nuser\nhi\n");
  EXPECT_EQ(message_with(R"("hi")", R"(,"system":null)").text, "user\nhi\n");
}

TEST(MessageRequest, WhatChangesInEachRequestIsNoPartOfTheText) {
  const std::string header = R"({"type":"text","text":"x-anthropic-billing-header: cch=1"})";
  EXPECT_EQ(message_with(R"("hi")", R"(,"system":[)" + header + R"(,{"type":"text","text":"a"}])").text,
            "system\na\nuser\nhi\n");
  const auto text_with = [](const std::string& before, const std::string& after) {
    return message_with("[{" + before + R"("type":"tool_result","tool_use_id":"t","content":"c")" + after + "}]").text;
  };
  const std::string plain = "user\n{\"type\":\"tool_result\",\"tool_use_id\":\"t\",\"content\":\"c\"}\n";
  EXPECT_EQ(text_with("", ""), plain);
  EXPECT_EQ(text_with("", R"(, "cache_control":{"type":"ephemeral"})"), plain);
  EXPECT_EQ(text_with(R"("cache_control":{"type":"ephemeral"}, )", ""), plain);
  EXPECT_EQ(text_with(R"("x":"cache_control",)", ""), "user\n{\"x\":\"cache_control\"," + plain.substr(6));
}

TEST(MessageRequest, ImagesAreNoTextAlsoInTheResultOfATool) {
  const std::string image = R"({"type":"image","source":{"type":"base64","media_type":"image/png","data":")" +
                            std::string(1000, 'A') + R"("}})";
  const InferenceRequest direct = message_with(R"([{"type":"text","text":"what"},)" + image + "]");
  const InferenceRequest result = message_with(
      R"([{"type":"tool_result","tool_use_id":"t","content":[{"type":"text","text":"x"},)" + image + "]}]");
  for (const InferenceRequest& request : {direct, result}) {
    EXPECT_EQ(request.size.images, 1U);
    EXPECT_LT(request.size.text_bytes, 250U);
    EXPECT_GT(request.text.size(), 1000U) << "equal images are equal prompts";
  }
  const std::string arguments = R"([{"type":"tool_use","id":"t","name":"f","input":{"path":"/a"}}])";
  EXPECT_GE(message_with(arguments).size.text_bytes, arguments.size());
}

TEST(MessageRequest, NeedsMessagesAndALimitThatACountDoesNot) {
  const std::string messages = R"("messages":[{"role":"user","content":"hi"}])";
  EXPECT_EQ(read_message(messages).error().where, "max_tokens");
  EXPECT_EQ(read_message(messages + R"(,"max_tokens":0)").error().where, "max_tokens");
  EXPECT_EQ(read_message(R"("system":"s","max_tokens":1)").error().where, "messages");
  EXPECT_EQ(read_message(messages + R"(,"max_tokens":1,"system":5)").error().where, "system");
  EXPECT_EQ(read_message(messages + R"(,"max_tokens":1,"system":["a"])").error().where, "system[0]");
  EXPECT_EQ(read_message(messages + R"(,"max_tokens":1,"system":[{"type":"text"}])").error().where, "system[0].text");
  EXPECT_EQ(read_message(messages + R"(,"max_tokens":1,"stop_sequences":[1])").error().where, "stop_sequences[0]");
  EXPECT_TRUE(read_message(messages, Endpoint::kCountTokens));
}

TEST(MessageRequest, HasItsOwnNamesForStopAndUser) {
  const std::string fields = R"(,"stop_sequences":["a","b"],"metadata":{"user_id":"u-1"})";
  const InferenceRequest request = message_with(R"("hi")", fields);
  EXPECT_EQ(request.stop, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(request.user, "u-1");
  RequestReader reader;
  InferenceRequest chat;
  ASSERT_TRUE(reader.read(Endpoint::kChatCompletions,
                          R"({"model":"m","messages":[{"role":"user","content":"hi"}])" + fields + "}", chat));
  EXPECT_TRUE(chat.stop.empty() && chat.user.empty());
}

TEST(MessageRequest, ALoweredLimitLowersTheBudgetForThinking) {
  const auto changed_to = [](const std::string& thinking, std::uint32_t limit) {
    const std::string body =
        R"({"model":"m","max_tokens":9000,"thinking":)" + thinking + R"(,"messages":[{"role":"user","content":"hi"}]})";
    RequestReader reader;
    InferenceRequest request;
    EXPECT_TRUE(reader.read(Endpoint::kMessages, body, request));
    BodyChanges changes;
    changes.max_tokens = limit;
    std::string changed;
    EXPECT_TRUE(append_changed_body(changed, body, Endpoint::kMessages, request.edit, changes));
    const json made = json::parse(changed);
    EXPECT_EQ(made["max_tokens"], limit);
    return made["thinking"];
  };
  const std::string enabled = R"({"budget_tokens": 4000,"type":"enabled"})";
  EXPECT_EQ(changed_to(enabled, 5000), json::parse(enabled));
  EXPECT_EQ(changed_to(enabled, 4000)["budget_tokens"], 3999);
  EXPECT_EQ(changed_to(enabled, 1025)["budget_tokens"], 1024);
  EXPECT_EQ(changed_to(enabled, 1024), (json{{"type", "disabled"}})) << "an engine refuses a budget below 1024";
  EXPECT_EQ(changed_to(R"({"type":"adaptive"})", 10), (json{{"type", "adaptive"}}));
}

// ---- answers --------------------------------------------------------------------------------------------------------

const AnswerFrame kMessageFrame{"msg_1", "m", 0, false};

std::string delta_event(const std::string& delta, int block = 0) {
  return "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":" + std::to_string(block) +
         ",\"delta\":{" + delta + "}}\n\n";
}
std::string block_start(const std::string& block, int index = 0) {
  return "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":" + std::to_string(index) +
         ",\"content_block\":{" + block + "}}\n\n";
}
const std::string kPing = "event: ping\ndata: {\"type\": \"ping\"}\n\n";

std::string start_event() {
  std::string start;
  append_message_start(start, kMessageFrame, {20, 0, 12});
  return start;
}

AnswerWatch watched_message(std::string_view bytes, bool stream = true) {
  AnswerWatch watch;
  watch.reset(stream);
  watch.take(bytes);
  return watch;
}

TEST(MessageAnswer, IsWrittenAsAnthropicWritesIt) {
  const json whole =
      json::parse(whole_message(kMessageFrame, "a\n", {FinishReason::kStop, "b"}, {20, 3, 12}, R"({"remote_port":1})"));
  EXPECT_EQ(whole["type"], "message");
  EXPECT_EQ(whole["content"], json::parse(R"([{"type":"text","text":"a\n"}])"));
  EXPECT_EQ(whole["stop_reason"], "stop_sequence");
  EXPECT_EQ(whole["stop_sequence"], "b");
  EXPECT_EQ(whole["usage"], json::parse(R"({"input_tokens":8,"output_tokens":3,"cache_read_input_tokens":12})"));
  EXPECT_EQ(whole["kv_transfer_params"]["remote_port"], 1);
  const auto reason_of = [](FinishReason finish) {
    return json::parse(whole_message(kMessageFrame, "", {finish}, {}))["stop_reason"];
  };
  EXPECT_EQ(reason_of(FinishReason::kStop), "end_turn");
  EXPECT_EQ(reason_of(FinishReason::kLength), "max_tokens");
  EXPECT_EQ(reason_of(FinishReason::kAbort), nullptr);
}

TEST(MessageAnswer, ErrorsHaveTheTypeOfTheirStatus) {
  const std::pair<int, const char*> types[] = {{400, "invalid_request_error"}, {401, "authentication_error"},
                                               {403, "permission_error"},      {404, "not_found_error"},
                                               {405, "invalid_request_error"}, {413, "request_too_large"},
                                               {429, "rate_limit_error"},      {502, "api_error"},
                                               {503, "overloaded_error"},      {504, "api_error"}};
  for (const auto& [status, type] : types)
    EXPECT_EQ(json::parse(message_error_body({status, "x", "code", "why", "param"})),
              (json{{"type", "error"}, {"error", {{"type", type}, {"message", "why"}}}}));
  const ApiError too_long{400, "invalid_request_error", "context_length_exceeded", "why", {}};
  EXPECT_EQ(json::parse(message_error_body(too_long))["error"]["message"], "prompt is too long: why");
  const ApiError error{404, "invalid_request_error", "c", "m", {}};
  EXPECT_EQ(error_body_at("/v1/messages", error), message_error_body(error));
  EXPECT_EQ(error_body_at("/v1/messages/count_tokens", error), message_error_body(error));
  for (const char* path : {"/v1/messagesx", "/v1/chat/completions", ""})
    EXPECT_EQ(error_body_at(path, error), error_body(error));
  EXPECT_EQ(watched_message(message_error_event(error)).error_status(), 502);
}

TEST(MessageWatch, CountsTheDeltasOfBlocksAndTheUsage) {
  const std::string events = start_event() + kPing + delta_event(R"("type":"text_delta","text":"abc")") +
                             delta_event(R"("type":"text_delta","text":"de")") +
                             delta_event(R"("type":"thinking_delta","thinking":"f")") +
                             delta_event(R"("type":"input_json_delta","partial_json":"{")", 1) +
                             delta_event(R"("type":"signature_delta","signature":"secret")");
  const AnswerWatch open = watched_message(events);
  EXPECT_EQ(open.text_events(), 4U);
  EXPECT_EQ(open.text_bytes(), 7U);
  EXPECT_EQ(open.usage(), (Usage{20, 0, 12}));
  EXPECT_EQ(open.open_block(), 0U);
  EXPECT_FALSE(open.whole() || open.has_stop_reason());
  std::string end;
  append_block_stop(end, 0);
  append_message_delta(end, {FinishReason::kLength}, 4, Usage{20, 9, 12});
  const AnswerWatch ended = watched_message(events + end);
  EXPECT_EQ(ended.usage(), (Usage{20, 4, 12}));
  EXPECT_FALSE(ended.open_block());
  EXPECT_TRUE(ended.has_stop_reason());
  EXPECT_FALSE(ended.whole()) << "only message_stop ends a message";
  const AnswerWatch whole = watched_message(events + end + std::string{kMessageStopEvent});
  EXPECT_TRUE(whole.whole() && whole.done());
  EXPECT_FALSE(whole.malformed());
}

TEST(MessageWatch, TheEndOfAMessageMayNameOnlyItsOutput) {
  const std::string start =
      "data: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":5,\"cache_creation_input_tokens\":7,"
      "\"cache_read_input_tokens\":null,\"output_tokens\":1}}}\n\n";
  std::string end;
  append_message_delta(end, {}, 30, std::nullopt);
  EXPECT_EQ(watched_message(start).usage(), (Usage{12, 1, 0, false}));
  EXPECT_EQ(watched_message(start + end).usage(), (Usage{12, 30, 0, false}));
  // Proxies add these fields to usages whose prompt has them already.
  EXPECT_EQ(watched_message(R"({"usage":{"prompt_tokens":9,"completion_tokens":1,"cache_read_input_tokens":4}})", false)
                .usage(),
            (Usage{9, 1, 0, false}));
}

TEST(MessageWatch, TheFirstDeltaIsTheFirstContent) {
  std::string events = start_event() + kPing + block_start(R"("type":"tool_use","id":"t","name":"f","input":{})");
  EXPECT_FALSE(watched_message(events).has_content());
  for (const char* delta : {R"("type":"text_delta","text":"a")", R"("type":"thinking_delta","thinking":"a")",
                            R"("type":"input_json_delta","partial_json":"{")"})
    EXPECT_TRUE(watched_message(events + delta_event(delta)).has_content()) << delta;
}

TEST(MessageWatch, CountsTheTextOfAWholeMessage) {
  const AnswerWatch watch = watched_message(
      R"({"id":"msg_1","content":[{"type":"thinking","thinking":"12","signature":"secret"},)"
      R"({"type":"text","text":"345"},{"type":"tool_use","id":"toolu_1","name":"f","input":{"path":"6789"}},)"
      R"({"type":"text","text":"0"}],)"
      R"("stop_reason":"tool_use","usage":{"input_tokens":3,"output_tokens":9,"cache_read_input_tokens":2}})",
      false);
  EXPECT_TRUE(watch.whole());
  EXPECT_EQ(watch.text_bytes(), 10U);
  EXPECT_EQ(watch.usage(), (Usage{5, 9, 2}));
}

}  // namespace
}  // namespace penstock::api
