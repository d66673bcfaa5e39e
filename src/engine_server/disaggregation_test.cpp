// A prefill and a decode engine as a pair, and what becomes of requests when an engine is told to stop.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "api/request.h"
#include "engine_server/server_testing.h"

namespace penstock::engine_server {
namespace {

using namespace testing;
using namespace std::chrono_literals;
using nlohmann::json;

constexpr std::string_view kTransfers = "penstock_engine_kv_transfers_total{result=";

std::uint64_t transfers(std::uint16_t port, std::string_view result) {
  return metric(port, std::string{kTransfers} + "\"" + std::string{result} + "\"}");
}

ServerOptions of_role(signals::Role role) {
  ServerOptions options = quick_options();
  options.role = role;
  options.id = signals::to_string(role);
  return options;
}

// What a gateway sends to the decode engine after the prefill engine has answered.
std::string decode_request(const RunningServer& prefill, const std::string& body) {
  const Answer first = post(prefill.port, kChat, *api::prefill_body(body));
  EXPECT_EQ(first.status, 200) << first.body;
  const std::string params = api::kv_transfer_params_of(first.body);
  EXPECT_FALSE(params.empty()) << first.body;
  return *api::decode_body(body, params);
}

std::string content(const Answer& answer) {
  return json::parse(answer.body)["choices"][0]["message"]["content"].get<std::string>();
}

TEST(Disaggregation, APairAnswersLikeOneEngineAndComputesThePromptOnce) {
  RunningServer alone, prefill{of_role(signals::Role::kPrefill)}, decode{of_role(signals::Role::kDecode)};
  const std::string body = chat_body(std::string(4000, 'q'), 20);
  const Answer together = post(decode.port, kChat, decode_request(prefill, body));
  ASSERT_EQ(together.status, 200) << together.body;
  EXPECT_EQ(content(together), content(post(alone.port, kChat, body)));
  EXPECT_EQ(prefill.state().prompt_tokens, 1002U);
  EXPECT_EQ(decode.state().prompt_tokens, 0U);
  EXPECT_EQ(transfers(prefill.port, "sent"), 1U);
  EXPECT_EQ(transfers(decode.port, "fetched"), 1U);
  prefill.wait_for([&] { return prefill.open_work() == 0; });
  EXPECT_EQ(prefill.state().active_kv_tokens, 0U);
}

TEST(Disaggregation, TheParametersAreThoseOfVllmsConnector) {
  RunningServer prefill{of_role(signals::Role::kPrefill)};
  const Answer first = post(prefill.port, kChat, *api::prefill_body(chat_body("hello", 20)));
  const json params = json::parse(api::kv_transfer_params_of(first.body));
  EXPECT_EQ(params["do_remote_prefill"], true);
  EXPECT_EQ(params["do_remote_decode"], false);
  EXPECT_EQ(params["remote_engine_id"], "prefill");
  EXPECT_EQ(params["remote_block_ids"].size(), 1U);
  EXPECT_EQ(params["remote_host"], "127.0.0.1");
  EXPECT_EQ(params["remote_port"], prefill.port);
  EXPECT_EQ(json::parse(first.body)["usage"]["completion_tokens"], 1);
  const Answer kv = get(prefill.port, "/penstock/v1/kv/" + params["remote_block_ids"][0].dump());
  EXPECT_EQ(kv.body.size(), 3U * 64U);  // "user\nhello\n"
  EXPECT_EQ(get(prefill.port, "/penstock/v1/kv/" + params["remote_block_ids"][0].dump()).status, 404);
}

TEST(Disaggregation, APrefillEngineServesOrdinaryRequestsToo) {
  RunningServer prefill{of_role(signals::Role::kPrefill)};
  EXPECT_EQ(content(post(prefill.port, kChat, chat_body("hello", 20))).size(), 80U);
  EXPECT_EQ(prefill.open_work(), 0U);
}

TEST(Disaggregation, APromptThatCannotBeFetchedIsComputed) {
  RunningServer prefill{of_role(signals::Role::kPrefill)}, decode{of_role(signals::Role::kDecode)};
  const std::string body = chat_body("hello", 20);
  std::uint64_t failed = 0;
  for (const std::string& place :
       {R"("remote_host":"127.0.0.1","remote_port":)" + std::to_string(prefill.port),  // no such number
        std::string{R"("remote_host":"127.0.0.1","remote_port":1)"},
        std::string{R"("remote_host":"a.name","remote_port":1)"}}) {
    const std::string asked = *api::decode_body(
        body, R"({"do_remote_prefill":true,"do_remote_decode":false,"remote_engine_id":"x","remote_block_ids":[77],)" +
                  place + "}");
    const Answer answer = post(decode.port, kChat, asked);
    ASSERT_EQ(answer.status, 200) << answer.body;
    EXPECT_EQ(content(answer).size(), 80U);
    EXPECT_EQ(transfers(decode.port, "failed"), ++failed);
  }
  EXPECT_EQ(decode.state().prompt_tokens, 9U);
}

TEST(Disaggregation, KvThatIsNotFetchedIsReleased) {
  ServerOptions options = of_role(signals::Role::kPrefill);
  options.kv_hold_time = 20ms;
  RunningServer prefill{options};
  post(prefill.port, kChat, *api::prefill_body(chat_body("hello", 20)));
  prefill.wait_for([&] { return prefill.open_work() == 0; });
  EXPECT_EQ(transfers(prefill.port, "expired"), 1U);
  EXPECT_EQ(prefill.state().active_kv_tokens, 0U);
}

TEST(Disaggregation, AClientThatLeavesDuringTheTransferEndsIt) {
  ServerOptions options = of_role(signals::Role::kPrefill);
  options.kv_bytes_per_s = 1.0;  // for ever
  RunningServer prefill{options}, decode{of_role(signals::Role::kDecode)};
  auto client = std::make_unique<Connection>(decode.port);
  client->send("POST", kChat, decode_request(prefill, chat_body("hello", 20)));
  decode.wait_for([&] { return decode.open_work() == 1; });
  const auto sending = [](EngineServer& server) { return server.open_work(); };
  prefill.wait_for([&] { return prefill.on_loop(sending) == 2; });  // the KV, and its way out
  EXPECT_NE(
      get(prefill.port, "/metrics").body.find("penstock_engine_kv_transfers_open{model_name=\"penstock-sim\"} 1\n"),
      std::string::npos);
  client.reset();
  decode.wait_for([&] { return decode.open_work() == 0; });
  prefill.wait_for([&] { return prefill.on_loop(sending) == 1; });
}

// ---- draining -------------------------------------------------------------------------------------------------------

TEST(Drain, StreamsCompleteAndNewRequestsAreRefused) {
  ServerOptions options = quick_options();
  options.session.engine.max_sequences = 10;
  RunningServer server{options};
  std::vector<std::unique_ptr<Connection>> clients;
  for (int i = 0; i < 40; ++i) {
    clients.push_back(std::make_unique<Connection>(server.port));
    clients.back()->send("POST", kChat, chat_body("prompt " + std::to_string(i), 50, R"("stream":true)"));
  }
  server.wait_for([&] { return server.open_work() >= 20 && server.state().running > 0; });
  Connection kept{server.port};  // connected before
  // Who is still on the way to it would be refused, rightly.
  server.wait_for([&] {
    return server.state().prompt_tokens > 0 &&
           server.on_loop([](EngineServer& one) { return one.requests_open() + one.engine_state().completed; }) >= 40;
  });
  server.drain();
  const Answer refused = post(server.port, kChat, chat_body("late", 5));
  if (refused.status != 0) {  // the last stream may have ended already
    EXPECT_EQ(refused.status, 503);
    EXPECT_NE(refused.head.find("Connection: close\r\n"), std::string::npos) << refused.head;
    EXPECT_NE(refused.head.find("Retry-After: "), std::string::npos);
  }
  for (const auto& client : clients) {
    const Answer answer = client->read_answer();
    EXPECT_TRUE(answer.whole);
    EXPECT_EQ(answer.events().size(), 53U);
    EXPECT_TRUE(answer.body.ends_with("data: [DONE]\n\n"));
  }
  EXPECT_EQ(server.wait_until_drained(), 0U);
}

TEST(Drain, HealthReportsADrainFirst) {
  ServerOptions options = quick_options();
  options.speed = 1e-3;
  RunningServer server{options};
  Connection streaming{server.port};
  streaming.send("POST", kChat, chat_body("hi", 100'000, R"("stream":true)"));
  server.wait_for([&] { return server.open_work() == 1; });
  server.drain();
  EXPECT_EQ(get(server.port, "/health").status, 503);
  EXPECT_EQ(json::parse(get(server.port, "/penstock/v1/info").body)["state"], "draining");
  server.drain();
  EXPECT_EQ(server.wait_until_drained(), 1U) << "asked twice, it ends at once and says what it cut";
}

TEST(Drain, ATimeLimitCutsOpenStreams) {
  ServerOptions options = quick_options();
  options.speed = 1e-3;
  options.drain_timeout = 30ms;
  RunningServer server{options};
  Connection streaming{server.port};
  streaming.send("POST", kChat, chat_body("hi", 100'000, R"("stream":true)"));
  server.wait_for([&] { return server.open_work() == 1; });
  server.drain();
  EXPECT_EQ(server.wait_until_drained(), 1U);
}

TEST(Drain, AnIdleEngineEndsAtOnce) {
  RunningServer server;
  server.drain();
  EXPECT_EQ(server.wait_until_drained(), 0U);
}

TEST(Drain, HeldKvWaitsForItsDecodeEngine) {
  RunningServer prefill{of_role(signals::Role::kPrefill)}, decode{of_role(signals::Role::kDecode)};
  const std::string second = decode_request(prefill, chat_body("hello", 20));
  prefill.drain();
  EXPECT_EQ(get(prefill.port, "/health").status, 503) << "it is still there";
  EXPECT_EQ(content(post(decode.port, kChat, second)).size(), 80U);
  EXPECT_EQ(prefill.wait_until_drained(), 0U);
  EXPECT_EQ(transfers(decode.port, "fetched"), 1U);
}

TEST(Drain, ADecodeEngineCompletesTransfersInFlight) {
  ServerOptions options = of_role(signals::Role::kPrefill);
  options.kv_bytes_per_token = 1e6;
  options.kv_bytes_per_s = 1e8;  // 10 ms a token
  RunningServer prefill{options}, decode{of_role(signals::Role::kDecode)};
  Connection client{decode.port};
  client.send("POST", kChat, decode_request(prefill, chat_body("hello hello hello", 20)));
  decode.wait_for([&] { return decode.open_work() == 1; });
  decode.drain();
  EXPECT_EQ(content(client.read_answer()).size(), 80U);
  EXPECT_EQ(decode.wait_until_drained(), 0U);
}

}  // namespace
}  // namespace penstock::engine_server
