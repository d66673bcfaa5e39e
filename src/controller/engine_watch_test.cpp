#include "controller/engine_watch.h"

#include <gtest/gtest.h>

#include "connect/zmq/publisher.h"

#include "controller/live_testing.h"
#include "logging/log_testing.h"
#include "net/tls_testing.h"

namespace penstock::controller {
namespace {

using namespace std::chrono_literals;

constexpr std::uint32_t kReplica = 7;

// `/metrics` of an engine under a prefix, on the test's own loop.
class ScriptedEngine final : private net::ExchangeHandler {
 public:
  explicit ScriptedEngine(net::Loop& loop, std::shared_ptr<net::TlsContext> tls = nullptr)
      : listening_(*net::listen_on(net::Address{}, false)), address_(net::local_address(listening_)) {
    server_ = std::make_unique<net::Server>(loop, listening_, static_cast<net::ExchangeHandler&>(*this),
                                            net::ServerLimits{}, std::move(tls));
  }
  [[nodiscard]] std::uint16_t port() const { return address_.port(); }
  void leave() { server_.reset(); }

  int asked = 0;
  int asked_for_info = 0;
  std::string path = "/engine/metrics";
  std::string metrics = "vllm:num_requests_running 3\nvllm:num_requests_waiting 5\n", info = "{}";

 private:
  void on_request(net::Exchange& exchange) override {
    ++asked;
    if (exchange.head().target == "/penstock/v1/info") {
      ++asked_for_info;
      return exchange.respond(200, {}, info);
    }
    const bool known = exchange.head().target == path;
    exchange.respond(known ? 200 : 404, {}, known ? metrics : "");
  }
  std::string error_body(int, std::string_view fault) override { return std::string{fault}; }

  int listening_;
  net::Address address_;
  std::unique_ptr<net::Server> server_;
};

class EngineWatchTest : public ::testing::Test {
 protected:
  EngineWatchTest() {
    options.interval = 20ms;
    options.resolve = [this](const std::string& host, std::uint16_t port) -> net::Resolver::Addresses {
      ++asked_names;
      if (host != "engine.example") return core::environment_error(host, "the name has no address");
      return std::vector{*net::Address::parse("127.0.0.1", port)};
    };
  }
  static std::string url(const ScriptedEngine& engine, const std::string& start = "http://engine.example") {
    return start + ":" + std::to_string(engine.port()) + "/engine";
  }
  bool has_sample(const EngineWatch& watch) {
    return run_until(loop, [&] { return watch.sample_of(kReplica).has_value(); });
  }

  net::Loop loop;
  EngineWatchOptions options;
  logging::testing::CapturedLog log;
  FleetEvents events{log};
  std::atomic<int> asked_names = 0;
};

TEST_F(EngineWatchTest, ReadsMetricsOfAnEngineByItsName) {
  ScriptedEngine engine{loop};
  net::Client client{loop};
  EngineWatch watch{loop, client, events, options};
  watch.watch({{kReplica, url(engine), {}}});
  ASSERT_TRUE(has_sample(watch));
  EXPECT_EQ(watch.sample_of(kReplica)->running_requests, 3U);
  EXPECT_TRUE(run_until(loop, [&] { return engine.asked > 3; }));
  EXPECT_EQ(asked_names, 1);
  EXPECT_TRUE(events.all().empty());
  EXPECT_TRUE(log.lines().empty());
}

TEST_F(EngineWatchTest, ANameIsReadAtTheAddressThatAnswers) {
  ScriptedEngine engine{loop};
  options.resolve = [](const std::string&, std::uint16_t port) -> net::Resolver::Addresses {
    return std::vector{*net::Address::parse("::1", port), *net::Address::parse("127.0.0.1", port)};
  };
  net::Client client{loop};
  EngineWatch watch{loop, client, events, options};
  watch.watch({{kReplica, url(engine), {}}});
  EXPECT_TRUE(has_sample(watch));
}

TEST_F(EngineWatchTest, TokenFiguresNeedMetricsThatCanBeRead) {
  ScriptedEngine engine{loop};
  net::Client client{loop};
  EngineWatch watch{loop, client, events, options};
  EXPECT_FALSE(watch.tokens_of(kReplica, 1.0));
  watch.watch({{kReplica, url(engine), {}}});
  EXPECT_FALSE(watch.tokens_of(kReplica, 1.0));
  ASSERT_TRUE(has_sample(watch));
  EXPECT_EQ(watch.tokens_of(kReplica, 1.0)->prefill_queue, 5U);
  engine.leave();
  EXPECT_TRUE(run_until(loop, [&] { return !events.all().empty(); }));
  EXPECT_FALSE(watch.tokens_of(kReplica, 1.0)) << "old metrics are no metrics";
}

TEST_F(EngineWatchTest, ReadsMetricsBehindHttps) {
  const net::testing::TestCertificate certificate{{.names = "DNS:engine.example"}};
  ScriptedEngine engine{loop, certificate.server()};
  options.credentials = [credentials = std::make_shared<net::Credentials>(net::Credentials{
                             "X-Key: sk-engine\r\n", false, certificate.client()})](const std::string&) {
    return credentials;
  };
  net::Client client{loop};
  EngineWatch watch{loop, client, events, options};
  watch.watch({{kReplica, url(engine, "https://engine.example"), {}}});
  EXPECT_TRUE(has_sample(watch));
}

TEST_F(EngineWatchTest, ANameThatCannotBeResolvedIsReportedOnce) {
  ScriptedEngine engine{loop};
  net::Client client{loop};
  EngineWatch watch{loop, client, events, options};
  watch.watch({{kReplica, "http://unknown.example:8000", {}, "e7"}});
  EXPECT_TRUE(run_until(loop, [&] { return asked_names > 3; }));
  ASSERT_EQ(events.all().size(), 1U);
  const std::string text = events.all().front().text;
  EXPECT_TRUE(text.starts_with("metrics of http://unknown.example:8000 cannot be read: unknown.example")) << text;
  EXPECT_TRUE(events.all().front().warning);
  ASSERT_EQ(log.count(logging::Event::kTelemetryUnavailable), 1U);
  EXPECT_TRUE(log.lines().front().starts_with(
      "telemetry_unavailable replica=e7 url=http://unknown.example:8000 cause=\"unknown.example"))
      << log.lines().front();
  EXPECT_FALSE(watch.sample_of(kReplica));
  // The same replica elsewhere is another engine.
  watch.watch({{kReplica, url(engine), {}}});
  EXPECT_TRUE(has_sample(watch));
}

TEST_F(EngineWatchTest, AFailureIsReportedOnceAndTheNameIsResolvedAgain) {
  ScriptedEngine engine{loop};
  net::Client client{loop};
  EngineWatch watch{loop, client, events, options};
  watch.watch({{kReplica, url(engine), {}}});
  ASSERT_TRUE(has_sample(watch));
  engine.leave();
  EXPECT_TRUE(run_until(loop, [&] { return asked_names > 2; }));
  ASSERT_EQ(events.all().size(), 1U);
  EXPECT_NE(events.all().front().text.find("cannot be read"), std::string::npos);
  EXPECT_EQ(log.count(logging::Event::kTelemetryUnavailable), 1U);
}

TEST_F(EngineWatchTest, MetricsThatCanBeReadAgainAreLogged) {
  auto engine = std::make_unique<ScriptedEngine>(loop);
  const std::string before = "http://127.0.0.1:" + std::to_string(engine->port());
  net::Client client{loop};
  EngineWatch watch{loop, client, events, options};
  watch.watch({{kReplica, before, {}, "e7"}});
  EXPECT_TRUE(run_until(loop, [&] { return log.count(logging::Event::kTelemetryUnavailable) == 1; }));
  engine->path = "/metrics";
  EXPECT_TRUE(run_until(loop, [&] { return log.count(logging::Event::kTelemetryAvailable) == 1; }));
  EXPECT_EQ(log.lines().size(), 2U);
}

TEST_F(EngineWatchTest, OneFailureBetweenTwoAnswersIsNotReported) {
  ScriptedEngine engine{loop};
  const std::string address = "http://127.0.0.1:" + std::to_string(engine.port());
  engine.path = "/metrics";
  net::Client client{loop};
  EngineWatch watch{loop, client, events, options};
  watch.watch({{kReplica, address, {}, "e7"}});
  const auto after = [&](int answers) {
    return run_until(loop, [&, from = engine.asked] { return engine.asked >= from + answers; });
  };
  ASSERT_TRUE(has_sample(watch));
  engine.path = "/elsewhere";
  EXPECT_TRUE(after(1));
  engine.path = "/metrics";
  EXPECT_TRUE(after(4));
  EXPECT_TRUE(log.lines().empty());
  engine.path = "/elsewhere";
  EXPECT_TRUE(run_until(loop, [&] { return log.count(logging::Event::kTelemetryUnavailable) == 1; }));
  EXPECT_TRUE(watch.sample_of(kReplica));
}

TEST_F(EngineWatchTest, AFailureToReadAStoppingEngineIsNotLogged) {
  net::Client client{loop};
  EngineWatch watch{loop, client, events, options};
  watch.watch({{kReplica, "http://unknown.example:8000", {}, "e7", true}});
  EXPECT_TRUE(run_until(loop, [&] { return asked_names > 3; }));
  EXPECT_TRUE(events.all().empty());
  EXPECT_TRUE(log.lines().empty());
}

TEST_F(EngineWatchTest, AResponseWithoutMetricsIsReported) {
  ScriptedEngine engine{loop};
  net::Client client{loop};
  EngineWatch watch{loop, client, events, options};
  watch.watch({{kReplica, "http://127.0.0.1:" + std::to_string(engine.port()), {}}});
  EXPECT_TRUE(run_until(loop, [&] { return !events.all().empty(); }));
  EXPECT_NE(events.all().front().text.find("404"), std::string::npos) << events.all().front().text;
  EXPECT_EQ(asked_names, 0);
}

// A publisher of forward pass metrics, and an engine at `url` that names it.
class EngineWatchMessagesTest : public EngineWatchTest {
 protected:
  EngineWatchMessagesTest() {
    auto bound = connect::Publisher::bind({.address = "127.0.0.1", .port = 0});
    publisher = *std::move(bound);
    engine.path = "/metrics";
    engine.metrics =
        "vllm:num_requests_running 0\nvllm:num_requests_waiting 0\npenstock_engine_oldest_queued_seconds 0\n";
    engine.info = R"({"fpm_endpoint":")" + publisher->endpoint() + R"("})";
  }
  static telemetry::ForwardPassMetrics message(std::uint64_t number, const std::string& worker = "w") {
    telemetry::ForwardPassMetrics made;
    made.worker_id = worker;
    made.counter_id = number;
    made.wall_time = 0.01;
    made.scheduled_requests.num_decode_requests = 4;
    return made;
  }
  // Sends until the condition holds, because a subscription takes effect some time after it was requested.
  template <class Condition>
  bool send_until(const std::function<std::string(std::uint64_t)>& payload, Condition condition) {
    return run_until(loop, [&] {
      (void)publisher->send({}, payload(++counter));
      return condition();
    });
  }

  // Until a scrape of the replica and messages of its endpoint are there.
  void watch_until_both(EngineWatch& watch) {
    watch.watch({{kReplica, address, {publisher->endpoint()}, "e7"}});
    EXPECT_TRUE(
        send_until([](std::uint64_t number) { return encode(message(number)); },
                   [&] { return watch.tokens_of(kReplica, 1.0) && watch.sample_of(kReplica)->running_requests == 4; }));
  }

  ScriptedEngine engine{loop};
  std::unique_ptr<connect::Publisher> publisher;
  std::uint64_t counter = 0;
  const std::string address = "http://127.0.0.1:" + std::to_string(engine.port());
};

TEST_F(EngineWatchMessagesTest, SubscribesToTheEndpointThatAnEngineOfPenstockNames) {
  net::Client client{loop};
  EngineWatch watch{loop, client, events, options};
  watch.watch({{kReplica, address, {}, "e7"}});
  EXPECT_FALSE(watch.messages_of(kReplica));
  EXPECT_TRUE(send_until([](std::uint64_t number) { return encode(message(number)); },
                         [&] { return watch.messages_of(kReplica) && watch.messages_of(kReplica)->received > 3; }));
  EXPECT_EQ(watch.sample_of(kReplica)->running_requests, 4U);
  EXPECT_GT(watch.sample_of(kReplica)->iterations.steps(), 3U);
  EXPECT_EQ(engine.asked_for_info, 1);
  EXPECT_TRUE(log.lines().empty());
}

TEST_F(EngineWatchMessagesTest, AFailedScrapeDoesNotEndTheSubscription) {
  net::Client client{loop};
  EngineWatch watch{loop, client, events, options};
  const std::vector<WatchedEngine> engines{{kReplica, address, {}, "e7"}};
  watch.watch(engines);
  const auto encoded = [](std::uint64_t number) { return encode(message(number)); };
  EXPECT_TRUE(
      send_until(encoded, [&] { return watch.messages_of(kReplica) && watch.messages_of(kReplica)->received > 3; }));
  engine.path = "/elsewhere";
  EXPECT_TRUE(send_until(encoded, [&, from = engine.asked] { return engine.asked > from + 5; }));
  watch.watch(engines);
  const auto before = *watch.messages_of(kReplica);
  EXPECT_TRUE(send_until(encoded, [&] { return watch.messages_of(kReplica)->received > before.received + 3; }));
  EXPECT_EQ(watch.messages_of(kReplica)->lost, 0U);
  // Once its metrics are there again, the engine is asked again: it may have been restarted.
  engine.path = "/metrics";
  EXPECT_TRUE(send_until(encoded, [&] { return engine.asked_for_info == 2; }));
}

TEST_F(EngineWatchMessagesTest, AConfiguredEndpointReplacesTheOneThatTheEngineNames) {
  engine.info = R"({"fpm_endpoint":"tcp://127.0.0.1:1"})";
  net::Client client{loop};
  EngineWatch watch{loop, client, events, options};
  watch.watch({{kReplica, address, {publisher->endpoint()}, "e7"}});
  EXPECT_TRUE(send_until([](std::uint64_t number) { return encode(message(number)); },
                         [&] { return watch.messages_of(kReplica)->received > 0 && engine.asked > 1; }));
  EXPECT_EQ(engine.asked_for_info, 0);
}

TEST_F(EngineWatchMessagesTest, WorkersOfOneReplicaAreAddedUp) {
  net::Client client{loop};
  EngineWatch watch{loop, client, events, options};
  watch.watch({{kReplica, address, {publisher->endpoint()}, "e7"}});
  EXPECT_TRUE(
      send_until([](std::uint64_t number) { return encode(message(number / 2, number % 2 == 0 ? "w1" : "w2")); },
                 [&] { return watch.sample_of(kReplica) && watch.sample_of(kReplica)->running_requests == 8; }));
  EXPECT_EQ(watch.messages_of(kReplica)->lost, 0U);
}

TEST_F(EngineWatchMessagesTest, TheScrapesOfAReplicaCountOnceItsMessagesFallSilent) {
  options.worker_silence = 100ms;
  net::Client client{loop};
  EngineWatch watch{loop, client, events, options};
  watch_until_both(watch);
  const core::Instant last = watch.sample_of(kReplica)->sampled_at;
  EXPECT_TRUE(run_until(loop, [&] { return watch.sample_of(kReplica)->running_requests == 0; }));
  EXPECT_GT(watch.sample_of(kReplica)->sampled_at, last + options.worker_silence);
  EXPECT_TRUE(watch.workers_of(kReplica).empty());
}

TEST_F(EngineWatchMessagesTest, WithoutScrapesTheLastMessagesStay) {
  options.worker_silence = 100ms;
  engine.path = "/elsewhere";
  net::Client client{loop};
  EngineWatch watch{loop, client, events, options};
  watch.watch({{kReplica, address, {publisher->endpoint()}, "e7"}});
  EXPECT_TRUE(send_until([](std::uint64_t number) { return encode(message(number)); },
                         [&] { return watch.sample_of(kReplica).has_value(); }));
  EXPECT_TRUE(run_until(loop, [&] {
    const auto sample = watch.sample_of(kReplica);
    return !sample || loop.now() - sample->sampled_at > 2 * options.worker_silence;
  }));
  ASSERT_TRUE(watch.sample_of(kReplica));
  EXPECT_EQ(watch.sample_of(kReplica)->running_requests, 4U);
  EXPECT_EQ(watch.workers_of(kReplica).size(), 1U);
}

TEST_F(EngineWatchMessagesTest, MessagesEndWithTheirEndpoint) {
  engine.metrics = "vllm:num_requests_running 0\nvllm:num_requests_waiting 0\n";  // It names no endpoint of its own.
  net::Client client{loop};
  EngineWatch watch{loop, client, events, options};
  watch_until_both(watch);
  watch.watch({{kReplica, address, {}, "e7"}});
  EXPECT_EQ(watch.sample_of(kReplica)->running_requests, 0U);
  EXPECT_TRUE(watch.workers_of(kReplica).empty());
}

TEST_F(EngineWatchMessagesTest, AnUnknownVersionIsCountedAndReportedOnce) {
  net::Client client{loop};
  EngineWatch watch{loop, client, events, options};
  watch.watch({{kReplica, address, {publisher->endpoint()}, "e7"}});
  EXPECT_TRUE(send_until(
      [](std::uint64_t number) {
        telemetry::ForwardPassMetrics newer = message(number);
        newer.version = 2;
        return encode(newer);
      },
      [&] { return watch.messages_of(kReplica)->rejected > 3; }));
  EXPECT_EQ(watch.messages_of(kReplica)->received, 0U);
  ASSERT_EQ(log.count(logging::Event::kFpmRejected), 1U);
  EXPECT_TRUE(log.lines().front().starts_with("fpm_rejected replica=e7 endpoint=" + publisher->endpoint() +
                                              " cause=\"forward pass metrics: version: is 2, but only 1 is known; use"))
      << log.lines().front();
  ASSERT_EQ(events.all().size(), 1U);
  EXPECT_TRUE(events.all().front().warning);
}

TEST_F(EngineWatchMessagesTest, AnEndpointOfAnotherFormIsReported) {
  net::Client client{loop};
  EngineWatch watch{loop, client, events, options};
  watch.watch({{kReplica, address, {"http://127.0.0.1:1"}, "e7"}});
  EXPECT_EQ(log.count(logging::Event::kFpmRejected), 1U);
}

}  // namespace
}  // namespace penstock::controller
