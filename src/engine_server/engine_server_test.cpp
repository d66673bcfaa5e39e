// The server as clients see it: whole and streamed answers, errors, clients that leave or do not read, faults.
#include "engine_server/engine_server.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "engine_server/server_testing.h"

namespace penstock::engine_server {
namespace {

using namespace testing;
using namespace std::chrono_literals;
using nlohmann::json;

std::string streamed_text(const Answer& answer) {
  std::string text;
  for (const std::string& event : answer.events()) {
    if (event == "[DONE]") continue;
    const json data = json::parse(event);
    for (const json& choice : data["choices"]) text += choice["delta"].value("content", "");
  }
  return text;
}

TEST(EngineServer, AStreamBringsEachTokenAsAnEventAndTheUsageIfAsked) {
  RunningServer server;
  const Answer answer =
      post(server.port, kChat, chat_body("hi", 5, R"("stream":true,"stream_options":{"include_usage":true})"),
           "X-Request-Id: abc-1\r\n");
  EXPECT_EQ(answer.status, 200);
  EXPECT_TRUE(answer.whole);
  EXPECT_NE(answer.head.find("text/event-stream"), std::string::npos);
  EXPECT_NE(answer.head.find("X-Request-Id: abc-1\r\n"), std::string::npos);
  const auto events = answer.events();
  ASSERT_EQ(events.size(), 9U);  // role, five tokens, finish, usage, [DONE]
  EXPECT_EQ(streamed_text(answer).size(), 20U);
  EXPECT_EQ(json::parse(events[6])["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(json::parse(events[7])["usage"]["completion_tokens"], 5);
  EXPECT_EQ(json::parse(events[7])["usage"]["prompt_tokens"], 2);
  EXPECT_EQ(events[8], "[DONE]");
}

TEST(EngineServer, ACompleteAnswerEqualsTheStream) {
  RunningServer server;
  const Answer streamed = post(server.port, kChat, chat_body("hello", 30, R"("stream":true)"));
  const Answer whole = post(server.port, kChat, chat_body("hello", 30));
  ASSERT_EQ(whole.status, 200) << whole.body;
  const json answer = json::parse(whole.body);
  EXPECT_EQ(answer["choices"][0]["message"]["content"], streamed_text(streamed));
  EXPECT_EQ(answer["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(answer["usage"]["completion_tokens"], 30);
  EXPECT_EQ(answer["object"], "chat.completion");
}

TEST(EngineServer, ACompletionHasSixteenTokensAtMostAndStopsAtAStopString) {
  RunningServer server;
  const std::string prompt = R"({"model":"penstock-sim","prompt":"once upon a time","ignore_eos":true)";
  const json whole = json::parse(post(server.port, "/v1/completions", prompt + "}").body);
  const std::string text = whole["choices"][0]["text"];
  EXPECT_EQ(text.size(), 64U);
  const json cut =
      json::parse(post(server.port, "/v1/completions", prompt + R"(,"stop":[")" + text.substr(21, 4) + R"("]})").body);
  EXPECT_EQ(cut["choices"][0]["text"], text.substr(0, 21));
  EXPECT_EQ(cut["choices"][0]["finish_reason"], "stop");
}

TEST(EngineServer, APromptThatWasSeenIsFoundInTheCache) {
  RunningServer server;
  const std::string prompt(500, 'x');
  post(server.port, kChat, chat_body(prompt, 1));
  const json second = json::parse(post(server.port, kChat, chat_body(prompt, 1)).body);
  EXPECT_EQ(second["usage"]["prompt_tokens_details"]["cached_tokens"], 112);  // Cached of 127 tokens, in blocks of 16.
}

TEST(EngineServer, ListsTheLongestContextThatItsCacheHolds) {
  ServerOptions options = quick_options();
  options.session.engine.kv_blocks = 100;
  RunningServer server{options};
  const std::uint64_t longest = json::parse(get(server.port, "/v1/models").body)["data"][0]["max_model_len"];
  EXPECT_EQ(longest, 1601U);
  const std::string prompt(4 * 1000, 'x');
  const std::string body = R"({"model":"penstock-sim","ignore_eos":true,"prompt":")" + prompt + R"(","max_tokens":)";
  EXPECT_EQ(post(server.port, "/v1/completions", body + std::to_string(longest - 1000) + "}").status, 200);
  EXPECT_EQ(post(server.port, "/v1/completions", body + std::to_string(longest - 999) + "}").status, 400);
}

TEST(EngineServer, UnsupportedRequestsGetAnOpenAiError) {
  ServerOptions options = quick_options();
  options.session.context_tokens = 100;
  RunningServer server{options};
  struct Case {
    std::string path, body;
    int status;
    std::string code;
  };
  const std::vector<Case> cases = {
      {std::string{kChat}, "{", 400, ""},
      {std::string{kChat}, chat_body("hi", 5, R"("n":2)"), 400, ""},
      {"/v1/completions", R"({"model":"penstock-sim","prompt":"a","best_of":2})", 400, ""},
      {"/v1/completions", R"({"model":"penstock-sim","prompt":["a","b"]})", 400, ""},
      {"/v1/completions", R"({"model":"penstock-sim","prompt":[[1,2],[3]]})", 400, ""},
      {std::string{kChat}, chat_body("hi", 99), 400, "context_length_exceeded"},
      {std::string{kChat}, R"({"model":"other","messages":[{"role":"user","content":"hi"}]})", 404, "model_not_found"},
      {"/v1/embeddings", "{}", 404, "not_found"},
      {"/v1/models", "{}", 405, "method_not_allowed"},
  };
  for (const Case& one : cases) {
    const Answer answer = post(server.port, one.path, one.body);
    EXPECT_EQ(answer.status, one.status) << answer.body;
    const json error = json::parse(answer.body)["error"];
    EXPECT_FALSE(error["message"].get<std::string>().empty());
    EXPECT_EQ(error["code"].is_null() ? "" : error["code"].get<std::string>(), one.code);
  }
  EXPECT_EQ(get(server.port, "/nothing").status, 404);
  EXPECT_EQ(get(server.port, kChat).status, 405);
  EXPECT_EQ(server.open_work(), 0U);
}

TEST(EngineServer, OnePromptMayBeInAList) {
  RunningServer server;
  for (const char* prompt : {R"(["a"])", "[[1,2]]", "[1,2]"}) {
    const std::string body = R"({"model":"penstock-sim","best_of":1,"n":1,"prompt":)" + std::string{prompt} + "}";
    EXPECT_EQ(post(server.port, "/v1/completions", body).status, 200) << prompt;
  }
}

TEST(EngineServer, ACompressedBodyIsRefusedAsSuch) {
  RunningServer server;
  EXPECT_EQ(post(server.port, kChat, chat_body("hi", 1), "Content-Encoding: identity\r\n").status, 200);
  const Answer answer = post(server.port, kChat, "\x1f\x8b", "Content-Encoding: gzip\r\n");
  EXPECT_EQ(answer.status, 415);
  EXPECT_NE(answer.body.find("Content-Encoding gzip is not supported"), std::string::npos) << answer.body;
}

TEST(EngineServer, AConfiguredApiKeyIsRequired) {
  ServerOptions options = quick_options();
  options.api_key = "secret";
  RunningServer server{options};
  EXPECT_EQ(post(server.port, kChat, chat_body("hi", 1)).status, 401);
  EXPECT_EQ(post(server.port, kChat, chat_body("hi", 1), "Authorization: Bearer secreT\r\n").status, 401);
  EXPECT_EQ(post(server.port, kChat, chat_body("hi", 1), "Authorization: Bearer secret\r\n").status, 200);
  EXPECT_EQ(get(server.port, "/v1/models").status, 401);
  EXPECT_EQ(get(server.port, "/penstock/v1/kv/1").status, 401);
  EXPECT_EQ(get(server.port, "/health").status, 200);
}

TEST(EngineServer, ReportsItsModelAndVersion) {
  RunningServer server;
  server.wait_until_ready();
  const json models = json::parse(get(server.port, "/v1/models").body);
  EXPECT_EQ(models["data"][0]["id"], "penstock-sim");
  const json info = json::parse(get(server.port, "/penstock/v1/info").body);
  EXPECT_EQ(info["id"], "e1");
  EXPECT_EQ(info["state"], "ready");
  EXPECT_EQ(info["role"], "aggregated");
  EXPECT_EQ(info["block_tokens"], 16);
  EXPECT_EQ(info["fpm_endpoint"], nullptr);
  EXPECT_EQ(info["requests_open"], 0);
  EXPECT_EQ(json::parse(get(server.port, "/version").body)["version"], "0");
}

TEST(EngineServer, ExportsItsCounters) {
  RunningServer server;
  post(server.port, kChat, chat_body("hi", 7));
  const std::string text = get(server.port, "/metrics").body;
  EXPECT_NE(text.find("vllm:generation_tokens_total{"), std::string::npos) << text.substr(0, 500);
  EXPECT_EQ(server.state().generated_tokens, 7U);
}

TEST(EngineServer, DuringStartUpRequestsAreRefusedWithRetryAfter) {
  ServerOptions options = quick_options();
  options.start_up = 1h;
  RunningServer server{options};
  const Answer answer = post(server.port, kChat, chat_body("hi", 1));
  EXPECT_EQ(answer.status, 503);
  EXPECT_NE(answer.head.find("Retry-After: 3600\r\n"), std::string::npos) << answer.head;
  EXPECT_EQ(get(server.port, "/health").status, 503);
  EXPECT_EQ(get(server.port, "/metrics").status, 200);
  EXPECT_EQ(json::parse(get(server.port, "/penstock/v1/info").body)["state"], "starting");
}

TEST(EngineServer, ItsSpeedCountsForTheStartUpToo) {
  ServerOptions options = quick_options();
  options.start_up = 1h;
  options.speed = 36'000.0;
  RunningServer server{options};
  server.wait_until_ready();
  EXPECT_EQ(get(server.port, "/health").status, 200);
  EXPECT_EQ(post(server.port, kChat, chat_body("hi", 1000)).status, 200);
}

// A step takes so long that nothing ends unless something else makes it.
ServerOptions slow_options(core::Duration step) {
  ServerOptions options = quick_options();
  options.step_time = std::make_shared<engine::testing::LinearNanoseconds>(
      engine::testing::LinearNanoseconds::Terms{.step = step.count(), .prefill_token = 0});
  options.session.engine.max_sequences = 1;
  return options;
}

TEST(EngineServer, AFullQueueIsReported) {
  ServerOptions options = slow_options(1h);
  options.max_queue = 1;
  RunningServer server{options};
  Connection running{server.port}, waiting{server.port};
  running.send("POST", kChat, chat_body("one", 5, R"("stream":true)"));
  server.wait_for([&] { return server.state().running == 1; });
  waiting.send("POST", kChat, chat_body("two", 5, R"("stream":true)"));
  server.wait_for([&] { return server.state().waiting == 1; });
  const Answer answer = post(server.port, kChat, chat_body("three", 5));
  EXPECT_EQ(answer.status, 429);
  EXPECT_NE(answer.head.find("Retry-After: "), std::string::npos);
}

TEST(EngineServer, WithoutAQueueAFreeEngineServesAndABusyOneRefuses) {
  ServerOptions options = slow_options(1h);
  options.max_queue = 0;
  RunningServer server{options};
  Connection running{server.port};
  running.send("POST", kChat, chat_body("one", 5, R"("stream":true)"));
  server.wait_for([&] { return server.state().running == 1; });
  EXPECT_EQ(post(server.port, kChat, chat_body("two", 5)).status, 429);
}

TEST(EngineServer, AClientThatLeavesFreesItsSlotForTheNext) {
  RunningServer server{slow_options(2ms)};
  auto leaving = std::make_unique<Connection>(server.port);
  leaving->send("POST", kChat, chat_body("one", 100'000, R"("stream":true)"));
  ASSERT_TRUE(leaving->read_until("data: "));
  Connection next{server.port};
  next.send("POST", kChat, chat_body("two", 3, R"("stream":true)"));
  server.wait_for([&] { return server.state().waiting == 1; });
  leaving.reset();
  EXPECT_TRUE(next.read_answer().whole) << "there is room for one only";
  server.wait_for([&] { return server.open_work() == 0; });
  EXPECT_EQ(server.state().active_kv_tokens, 0U);
  EXPECT_LT(server.state().generated_tokens, 50'000U);
}

TEST(EngineServer, AClientThatWaitsInTheQueueMayLeaveToo) {
  RunningServer server{slow_options(1h)};
  Connection running{server.port};
  running.send("POST", kChat, chat_body("one", 5));
  server.wait_for([&] { return server.state().running == 1; });
  auto leaving = std::make_unique<Connection>(server.port);
  leaving->send("POST", kChat, chat_body("two", 5));
  server.wait_for([&] { return server.state().waiting == 1; });
  leaving.reset();
  server.wait_for([&] { return server.state().waiting == 0; });
}

TEST(EngineServer, AClientThatDoesNotReadIsCutOff) {
  ServerOptions options = quick_options();
  options.speed = 200.0;
  RunningServer server{options};
  Connection client{server.port, 4096};
  client.send("POST", kChat, chat_body("hi", 190'000, R"("stream":true)"));
  server.wait_for([&] { return server.state().steps > 0 && server.open_work() == 0; });
  EXPECT_EQ(server.state().completed, 0U);
  EXPECT_EQ(metric(server.port,
                   R"(vllm:request_success_total{model_name="penstock-sim",engine="0",finished_reason="abort"})"),
            1U);
  EXPECT_FALSE(client.read_answer().whole);
}

// ---- faults ---------------------------------------------------------------------------------------------------------

TEST(EngineServerFault, GarbageFollowsTheConfiguredNumberOfAnswers) {
  ServerOptions options = quick_options();
  options.fault = Fault::kGarbage;
  options.fault_after = 2;
  RunningServer server{options};
  EXPECT_EQ(post(server.port, kChat, chat_body("hi", 1)).status, 200);
  EXPECT_EQ(post(server.port, kChat, chat_body("hi", 1)).status, 200);
  Connection client{server.port};
  client.send("POST", kChat, chat_body("hi", 1));
  while (client.read_some()) {}
  net::ResponseHead head;
  EXPECT_EQ(net::parse_response_head(client.held(), head).state, net::HeadState::kMalformed);
}

TEST(EngineServerFault, AHungEngineAcceptsConnectionsAndDoesNotAnswer) {
  ServerOptions options = quick_options();
  options.fault = Fault::kHang;
  options.fault_after = 1;
  RunningServer server{options};
  Connection streaming{server.port};
  streaming.send("POST", kChat, chat_body("hi", 100'000, R"("stream":true)"));
  ASSERT_TRUE(streaming.read_until("data: "));
  Connection hanging{server.port};
  hanging.send("POST", kChat, chat_body("hi", 1));
  server.wait_for([&] {
    const std::uint64_t before = server.state().steps;
    std::this_thread::sleep_for(20ms);
    return server.state().steps == before;
  });
  Connection health{server.port};
  EXPECT_TRUE(health.is_open());
  health.send("GET", "/health");
  EXPECT_TRUE(health.held().empty());
}

TEST(EngineServerFault, ASlowEngineStaysSlow) {
  ServerOptions options = quick_options();
  options.fault = Fault::kSlow;
  options.fault_after = 1;
  options.slow_factor = 1e7;
  RunningServer server{options};
  EXPECT_EQ(post(server.port, kChat, chat_body("hi", 10)).status, 200);
  Connection slow{server.port};
  slow.send("POST", kChat, chat_body("hi", 10));
  server.wait_for([&] { return server.state().running == 1; });
  EXPECT_EQ(server.state().generated_tokens, 10U);
}

}  // namespace
}  // namespace penstock::engine_server
