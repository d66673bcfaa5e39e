// Anthropic's Messages API of the server: whole and streamed messages, counts, errors.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "engine_server/engine_server.h"
#include "engine_server/server_testing.h"

namespace penstock::engine_server {
namespace {

using namespace testing;
using nlohmann::json;

constexpr std::string_view kMessages = "/v1/messages";

std::string message_body(std::string_view more = {}, std::uint32_t tokens = 5) {
  return R"({"model":"penstock-sim","ignore_eos":true,"max_tokens":)" + std::to_string(tokens) +
         R"(,"messages":[{"role":"user","content":"hello"}])" + std::string{more} + "}";
}

TEST(EngineMessages, AStreamHasTheEventsOfAnthropic) {
  RunningServer server;
  const Answer answer = post(server.port, kMessages, message_body(R"(,"stream":true)"));
  ASSERT_EQ(answer.status, 200) << answer.body;
  EXPECT_TRUE(answer.whole);
  EXPECT_NE(answer.body.find("event: message_start\ndata: {\"type\":\"message_start\","), std::string::npos);
  std::vector<std::string> types;
  std::string text;
  json delta;
  for (const std::string& event : answer.events()) {
    const json data = json::parse(event);
    types.push_back(data["type"]);
    if (types.back() == "content_block_delta") text += data["delta"]["text"];
    if (types.back() == "message_delta") delta = data;
  }
  ASSERT_EQ(types.size(), 10U);
  EXPECT_EQ(types[0] + " " + types[1] + " " + types[2], "message_start content_block_start content_block_delta");
  EXPECT_EQ(types[7] + " " + types[8] + " " + types[9], "content_block_stop message_delta message_stop");
  EXPECT_EQ(delta["delta"]["stop_reason"], "max_tokens");
  EXPECT_EQ(delta["usage"]["output_tokens"], 5);
  const json whole = json::parse(post(server.port, kMessages, message_body()).body);
  EXPECT_EQ(whole["content"][0]["text"], text) << "a stream says the same";
  EXPECT_EQ(whole["usage"]["input_tokens"], 3);  // "user\nhello\n"
  EXPECT_EQ(whole["role"], "assistant");
}

TEST(EngineMessages, NameTheStopSequenceThatEndsThem) {
  RunningServer server;
  const std::string text = json::parse(post(server.port, kMessages, message_body({}, 16)).body)["content"][0]["text"];
  const std::string stops = R"(,"stop_sequences":["absent",")" + text.substr(21, 4) + R"("])";
  const json cut = json::parse(post(server.port, kMessages, message_body(stops, 16)).body);
  EXPECT_EQ(cut["content"][0]["text"], text.substr(0, 21));
  EXPECT_EQ(cut["stop_reason"], "stop_sequence");
  EXPECT_EQ(cut["stop_sequence"], text.substr(21, 4));
}

TEST(EngineMessages, TokensAreCountedWithoutALimit) {
  RunningServer server;
  const std::string body = R"({"model":"penstock-sim","messages":[{"role":"user","content":"hello"}]})";
  EXPECT_EQ(json::parse(post(server.port, "/v1/messages/count_tokens", body).body)["input_tokens"], 3);
}

TEST(EngineMessages, ErrorsHaveAnthropicsFormat) {
  RunningServer server;
  const auto error_of = [&](const std::string& body) {
    const Answer answer = post(server.port, kMessages, body);
    return std::to_string(answer.status) + " " + std::string{json::parse(answer.body)["error"]["type"]};
  };
  EXPECT_EQ(error_of("{"), "400 invalid_request_error");
  EXPECT_EQ(error_of(R"({"model":"penstock-sim","messages":[{"role":"user","content":"a"}]})"),
            "400 invalid_request_error");
  EXPECT_EQ(error_of(R"({"model":"x","max_tokens":1,"messages":[{"role":"user","content":"a"}]})"),
            "404 not_found_error");
  EXPECT_EQ(error_of(message_body({}, 10'000'000)), "400 invalid_request_error");
}

}  // namespace
}  // namespace penstock::engine_server
