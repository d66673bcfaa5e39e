// Sleep mode: what POST /sleep, POST /wake_up and GET /is_sleeping do, and what happens to requests meanwhile.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "engine_server/server_testing.h"

namespace penstock::engine_server {
namespace {

using namespace testing;
using namespace std::chrono_literals;
using nlohmann::json;

bool is_sleeping(std::uint16_t port) {
  const Answer answer = get(port, "/is_sleeping");
  EXPECT_EQ(answer.status, 200);
  return json::parse(answer.body)["is_sleeping"].get<bool>();
}

TEST(SleepMode, AnEngineSleepsAndWakesUpAsVllmDoes) {
  RunningServer server;
  EXPECT_FALSE(is_sleeping(server.port));
  const Answer slept = post(server.port, "/sleep?level=1", "");
  EXPECT_EQ(slept.status, 200);
  EXPECT_EQ(slept.body, "");
  EXPECT_TRUE(is_sleeping(server.port));
  EXPECT_EQ(get(server.port, "/health").status, 200);  // As vLLM's, which is healthy while it sleeps.
  EXPECT_NE(get(server.port, "/penstock/v1/info").body.find("\"is_sleeping\":true"), std::string::npos);
  EXPECT_EQ(post(server.port, "/sleep", "").status, 200);
  EXPECT_EQ(post(server.port, "/wake_up", "").status, 200);
  EXPECT_FALSE(is_sleeping(server.port));
  EXPECT_EQ(post(server.port, "/wake_up", "").status, 200);
  EXPECT_EQ(post(server.port, kChat, chat_body("hi", 5)).status, 200);
}

TEST(SleepMode, TheMetricNamesTheState) {
  RunningServer server;
  const auto value = [&](const std::string& state) {
    const std::string text = get(server.port, "/metrics").body;
    const std::string series = "sleep_state=\"" + state + "\"} ";
    const std::size_t at = text.find(series);
    return at == std::string::npos ? '?' : text[at + series.size()];
  };
  EXPECT_EQ(value("awake"), '1');
  post(server.port, "/sleep?level=1", "");
  EXPECT_EQ(value("awake"), '0');
  EXPECT_EQ(value("weights_offloaded"), '1');
  post(server.port, "/sleep?level=2", "");
  EXPECT_EQ(value("discard_all"), '1');
  EXPECT_EQ(value("weights_offloaded"), '0');
}

TEST(SleepMode, WakingUpTakesTheWakeTime) {
  ServerOptions options = quick_options();
  options.wake_time = 300ms;
  RunningServer server{options};
  post(server.port, "/sleep", "");
  const auto before = std::chrono::steady_clock::now();
  Connection waking{server.port};
  waking.send("POST", "/wake_up");
  server.wait_for(
      [&] { return server.on_loop([](EngineServer& one) { return one.sleep_state(); }) == SleepState::kWaking; });
  EXPECT_TRUE(is_sleeping(server.port));
  EXPECT_EQ(waking.read_answer().status, 200);
  EXPECT_GE(std::chrono::steady_clock::now() - before, 300ms);
  EXPECT_FALSE(is_sleeping(server.port));
}

TEST(SleepMode, RequestsWaitUntilTheEngineIsAwake) {
  RunningServer server;
  post(server.port, "/sleep", "");
  Connection client{server.port};
  client.send("POST", kChat, chat_body("hi", 5, R"("stream":true)"));
  server.wait_for([&] { return server.on_loop([](EngineServer& one) { return one.requests_open(); }) == 1; });
  EXPECT_EQ(server.state().running + server.state().waiting, 0U);
  EXPECT_EQ(post(server.port, "/wake_up", "").status, 200);
  const Answer answer = client.read_answer();
  EXPECT_EQ(answer.status, 200);
  EXPECT_TRUE(answer.whole);
  EXPECT_EQ(answer.events().back(), "[DONE]");
}

TEST(SleepMode, AClientThatLeavesWhileItWaitsIsForgotten) {
  RunningServer server;
  post(server.port, "/sleep", "");
  {
    Connection client{server.port};
    client.send("POST", kChat, chat_body("hi", 5));
    server.wait_for([&] { return server.on_loop([](EngineServer& one) { return one.requests_open(); }) == 1; });
  }
  server.wait_for([&] { return server.on_loop([](EngineServer& one) { return one.requests_open(); }) == 0; });
  EXPECT_EQ(post(server.port, "/wake_up", "").status, 200);
}

TEST(SleepMode, WithModeWaitStreamsEndBeforeTheEngineSleeps) {
  RunningServer server;
  Connection stream{server.port}, other{server.port}, control{server.port};
  stream.send("POST", kChat, chat_body("hi", 300, R"("stream":true)"));
  ASSERT_TRUE(stream.read_until("\"content\""));
  control.send("POST", "/sleep?mode=wait");
  server.wait_for([&] {
    return server.on_loop([](EngineServer& one) { return one.sleep_state(); }) == SleepState::kFallingAsleep;
  });
  EXPECT_FALSE(is_sleeping(server.port));
  other.send("POST", kChat, chat_body("later", 5));  // It waits for the engine to wake up.
  EXPECT_EQ(control.read_answer().status, 200);
  EXPECT_TRUE(is_sleeping(server.port));
  const Answer streamed = stream.read_answer();
  EXPECT_TRUE(streamed.whole);
  EXPECT_NE(streamed.body.find(R"("finish_reason":"length")"), std::string::npos);
  EXPECT_EQ(post(server.port, "/wake_up", "").status, 200);
  EXPECT_EQ(other.read_answer().status, 200);
}

TEST(SleepMode, ByDefaultAnswersInFlightAreAborted) {
  RunningServer server;
  Connection stream{server.port};
  stream.send("POST", kChat, chat_body("hi", 100'000, R"("stream":true)"));
  ASSERT_TRUE(stream.read_until("\"content\""));
  EXPECT_EQ(post(server.port, "/sleep", "").status, 200);
  const Answer streamed = stream.read_answer();
  EXPECT_TRUE(streamed.whole);
  EXPECT_NE(streamed.body.find(R"("finish_reason":"abort")"), std::string::npos);
  EXPECT_TRUE(is_sleeping(server.port));
}

TEST(SleepMode, TheKvCacheIsEmptyAfterwards) {
  RunningServer server;
  const std::string body = chat_body(std::string(2000, 'x'), 2);
  const auto cached = [&] {
    const json answer = json::parse(post(server.port, kChat, body).body);
    return answer["usage"]["prompt_tokens_details"]["cached_tokens"].get<int>();
  };
  EXPECT_EQ(cached(), 0);
  EXPECT_GT(cached(), 0);
  post(server.port, "/sleep", "");
  post(server.port, "/wake_up", "");
  EXPECT_EQ(cached(), 0);
}

TEST(SleepMode, ADrainWakesTheEngineForRequestsThatWait) {
  RunningServer server;
  post(server.port, "/sleep", "");
  Connection client{server.port};
  client.send("POST", kChat, chat_body("hi", 5));
  server.wait_for([&] { return server.on_loop([](EngineServer& one) { return one.requests_open(); }) == 1; });
  server.drain();
  EXPECT_EQ(client.read_answer().status, 200);
  EXPECT_EQ(server.wait_until_drained(), 0U);
}

TEST(SleepMode, BadRequestsAreRefused) {
  ServerOptions options = quick_options();
  options.api_key = "secret";
  RunningServer guarded{options}, server;
  EXPECT_EQ(post(guarded.port, "/sleep", "").status, 401);
  EXPECT_EQ(post(guarded.port, "/wake_up", "").status, 401);
  EXPECT_EQ(get(guarded.port, "/is_sleeping").status, 200);
  EXPECT_EQ(get(server.port, "/sleep").status, 405);
  EXPECT_EQ(post(server.port, "/is_sleeping", "").status, 405);
  EXPECT_EQ(post(server.port, "/sleep?level=7", "").status, 400);
  EXPECT_EQ(post(server.port, "/sleep?mode=later", "").status, 400);
  EXPECT_FALSE(is_sleeping(server.port));
}

TEST(SleepMode, AnEngineThatStartsDoesNotSleep) {
  ServerOptions options = quick_options();
  options.start_up = 1h;
  RunningServer server{options};
  EXPECT_EQ(post(server.port, "/sleep", "").status, 503);
}

}  // namespace
}  // namespace penstock::engine_server
