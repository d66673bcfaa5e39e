// What a subscriber hears: iterations, heartbeats, and the blocks of prompts under the keys that a gateway computes.
#include "engine_server/telemetry.h"

#include <gtest/gtest.h>

#include <mutex>

#include "api/prompt_keys.h"
#include "connect/zmq/subscriber.h"
#include "engine_server/server_testing.h"
#include "net/address.h"
#include "telemetry/forward_pass.h"
#include "telemetry/kv_event.h"

namespace penstock::engine_server {
namespace {

using namespace testing;

// Payloads as they come.
class Ear {
 public:
  explicit Ear(const std::string& endpoint) {
    auto started = connect::Subscriber::start({}, [this](const connect::SubscriberMessage& message) {
      const std::lock_guard lock{mutex_};
      received_.emplace_back(message.payload);
    });
    EXPECT_TRUE(started.has_value());
    subscriber_ = *std::move(started);
    EXPECT_TRUE(subscriber_->add(endpoint).has_value());
  }
  std::vector<std::string> received() {
    const std::lock_guard lock{mutex_};
    return received_;
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> received_;
  std::unique_ptr<connect::Subscriber> subscriber_;
};

std::string endpoint(RunningServer& server, bool events) {
  return server.on_loop(
      [events](EngineServer& one) { return events ? one.info().kv_events_endpoint : one.info().fpm_endpoint; });
}

TEST(Telemetry, EachIterationIsAMessageAndIdlenessAHeartbeat) {
  ServerOptions options = quick_options();
  options.fpm_port = 0;
  RunningServer server{options};
  Ear subscriber{endpoint(server, false)};
  server.wait_for([&] { return !subscriber.received().empty(); });  // a heartbeat: it is connected
  ASSERT_TRUE(telemetry::decode_forward_pass(subscriber.received().front())->is_heartbeat());
  EXPECT_EQ(post(server.port, kChat, chat_body("hello", 4)).status, 200);
  std::vector<telemetry::ForwardPassMetrics> iterations;
  server.wait_for([&] {
    iterations.clear();
    bool idle_again = false;
    for (const std::string& payload : subscriber.received()) {
      const auto message = *telemetry::decode_forward_pass(payload);
      idle_again = message.is_heartbeat();
      if (!idle_again) iterations.push_back(message);
    }
    return iterations.size() == 4 && idle_again;
  });
  EXPECT_EQ(iterations[0].worker_id, "e1");
  EXPECT_EQ(iterations[0].scheduled_requests.num_prefill_requests, 1U);
  EXPECT_EQ(iterations[0].scheduled_requests.sum_prefill_tokens, 3U);
  EXPECT_EQ(iterations[0].scheduled_requests.num_decode_requests, 0U);
  EXPECT_NEAR(iterations[0].wall_time, 1.003e-3, 1e-9);
  EXPECT_EQ(iterations[3].scheduled_requests.num_decode_requests, 1U);
  EXPECT_EQ(iterations[3].scheduled_requests.sum_decode_kv_tokens, 6U);
  EXPECT_EQ(iterations[3].counter_id, iterations[0].counter_id + 3);
  EXPECT_EQ(iterations[0].kv_capacity_tokens, 320'000U);
}

TEST(Telemetry, StoredBlocksHaveTheKeysOfThePromptsText) {
  ServerOptions options = quick_options();
  options.kv_events_port = 0;
  RunningServer server{options};
  Ear subscriber{endpoint(server, true)};
  std::size_t asked = 0;
  // Who subscribes late has missed what came before; so it asks until it hears.
  server.wait_for([&] {
    EXPECT_EQ(
        post(server.port, kChat, chat_body("prompt " + std::to_string(asked++) + std::string(200, 'x'), 1)).status,
        200);
    return !subscriber.received().empty();
  });
  const auto batch = telemetry::decode_batch(subscriber.received().front());
  ASSERT_TRUE(batch.has_value());
  ASSERT_FALSE(batch->events.empty());
  const auto& stored = std::get<telemetry::BlockStored>(batch->events.front());
  ASSERT_EQ(stored.block_size, 16U);
  ASSERT_EQ(stored.token_ids.size(), stored.block_hashes.size() * 16);
  std::string text;
  for (const std::uint32_t token : stored.token_ids)
    for (unsigned shift = 0; shift < 32; shift += 8) text += static_cast<char>(token >> shift & 0xffU);
  EXPECT_TRUE(text.starts_with("user\nprompt ")) << text;
  std::vector<std::uint64_t> keys;
  api::prompt_keys(text, 64, keys);
  EXPECT_EQ(stored.block_hashes, keys);
}

TEST(Telemetry, APortThatIsTakenIsAnError) {
  ServerOptions options = quick_options();
  options.fpm_port = 0;
  RunningServer server{options};
  options.fpm_port = net::parse_url(endpoint(server, false).substr(6))->port;  // behind "tcp://"
  const auto second = Telemetry::open(options);
  ASSERT_FALSE(second.has_value());
  EXPECT_EQ(second.error().code, core::ErrorCode::kEnvironment);
}

}  // namespace
}  // namespace penstock::engine_server
