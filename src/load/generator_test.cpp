#include "load/generator.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>

#include "load/sources.h"
#include "net/server_testing.h"

namespace penstock::load {
namespace {

using namespace std::chrono_literals;
using net::Exchange;
using net::testing::TestServer;

const std::string kToken = "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n";
const std::string kEnd = "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";

struct Trial {
  GeneratorOptions options;
  RequestSource source;
  Tally tally{{"default"}};
  core::Duration sending_time{};
  core::Duration stop_after{};  // zero: it ends by itself

  explicit Trial(const TestServer& server) {
    options.address = server.address();
    options.dialect.host_field = "test";
    options.dialect.model = "m";
  }
  void go() {
    net::Loop loop;
    Generator generator{loop, options, source, tally, [&] { loop.stop(); }};
    bool hangs = false;
    loop.after(30s, [&] {
      hangs = true;
      loop.stop();
    });
    if (stop_after.count() > 0) loop.after(stop_after, [&] { generator.stop(); });
    generator.start();
    loop.run();
    EXPECT_FALSE(hangs);
    EXPECT_EQ(generator.in_flight(), 0U);
    sending_time = generator.sending_time();
  }
  [[nodiscard]] std::uint64_t of(Outcome outcome) const { return tally.all().of(outcome); }
};

RequestSource at_rate(double rate, core::Duration duration) {
  RateProfile profile;
  profile.curve.low = rate;
  return mixed_source(RequestMix{{.input = LengthMix{10}, .output = LengthMix{2}}, 1},
                      Arrivals{profile, ArrivalKind::kUniform, duration, core::RandomStream{1}}, 0);
}

void respond(Exchange& exchange, int status, std::string_view type, std::string_view body) {
  const std::array fields{net::Field{"Content-Type", type}};
  exchange.respond(status, fields, body);
}
void answer(Exchange& exchange) { respond(exchange, 200, "text/event-stream", kToken + kToken + kEnd); }

TEST(Generator, SendsEverythingThatIsDueAndCountsIt) {
  TestServer server{answer};
  Trial run{server};
  run.source = at_rate(200.0, 500ms);
  run.go();
  EXPECT_EQ(run.of(Outcome::kOk), 100U);
  EXPECT_EQ(run.tally.all().errors(), 0U);
  EXPECT_EQ(run.tally.tokens_received(), 200U);
  EXPECT_GE(run.sending_time, 490ms) << "nothing is sent before its time";
}

TEST(Generator, CountsAStallAgainstTheServerFromTheIntendedStarts) {
  // One connection's place, and a server that answers no request for a second: a generator that waits for answers
  // before it starts its clock would see one slow request. Here all that were meant to start within the stall are late.
  std::atomic<int> seen{0};
  TestServer* itself = nullptr;
  TestServer server{[&](Exchange& exchange) {
    if (seen++ > 0) return answer(exchange);
    itself->loop().after(1s, [&exchange] { answer(exchange); });
  }};
  itself = &server;
  Trial run{server};
  run.options.max_in_flight = 1;
  run.source = at_rate(100.0, 1s);
  run.go();
  EXPECT_EQ(run.of(Outcome::kOk), 100U);
  EXPECT_GE(run.tally.all().ttft_ms.quantile(0.5), 400.0);
  EXPECT_GE(run.tally.all().ttft_ms.quantile(0.98), 900.0);
  EXPECT_GE(run.tally.held_by_limit(), 98U);
  EXPECT_LE(run.tally.lateness_ms().count(), 2U) << "waiting for a place is not the generator's lateness";
}

TEST(Generator, KeepsAClosedLoopFullAndNoFuller) {
  std::atomic<int> open{0}, most{0}, served{0};
  TestServer* itself = nullptr;
  TestServer server{[&](Exchange& exchange) {
    most = std::max(most.load(), ++open);
    itself->loop().after(5ms, [&] {
      --open;
      ++served;
      answer(exchange);
    });
  }};
  itself = &server;
  Trial run{server};
  run.options.concurrency = 8;
  run.source = timeless_source(RequestMix{{.input = LengthMix{10}}, 1}, 200);
  run.go();
  EXPECT_EQ(run.of(Outcome::kOk), 200U);
  EXPECT_EQ(served, 200);
  EXPECT_EQ(most, 8);
}

TEST(Generator, EndsAClosedLoopAfterItsDuration) {
  TestServer server{answer};
  Trial run{server};
  run.options.concurrency = 2;
  run.options.duration = 200ms;
  run.source = timeless_source(RequestMix{{.input = LengthMix{10}}, 1}, 0);
  run.go();
  EXPECT_GT(run.of(Outcome::kOk), 2U);
  EXPECT_LT(run.sending_time, 5s);
}

TEST(Generator, WaitsBetweenRequestsToAServerThatRefuses) {
  std::atomic<int> asked{0};
  TestServer server{[&](Exchange& exchange) {
    ++asked;
    respond(exchange, 429, "application/json", "{}");
  }};
  Trial run{server};
  run.options.concurrency = 2;
  run.options.duration = 500ms;
  run.source = timeless_source(RequestMix{{.input = LengthMix{10}}, 1}, 0);
  run.go();
  EXPECT_GE(asked, 2);
  EXPECT_LE(asked, 12);
  EXPECT_EQ(run.of(Outcome::kRefused), static_cast<std::uint64_t>(asked));
}

TEST(Generator, CallsACutStreamTruncatedAndARefusalRefused) {
  std::atomic<int> number{0};
  TestServer server{[&](Exchange& exchange) {
    switch (number++ % 3) {
      case 0: return respond(exchange, 200, "text/event-stream", kToken);
      case 1: return respond(exchange, 429, "application/json", "{\"error\":{\"message\":\"later\"}}");
      default: return respond(exchange, 500, "application/json", "{\"error\":{\"message\":\"oh no\"}}");
    }
  }};
  Trial run{server};
  run.source = at_rate(300.0, 100ms);
  run.go();
  EXPECT_EQ(run.of(Outcome::kTruncated), 10U);
  EXPECT_EQ(run.of(Outcome::kRefused), 10U);
  EXPECT_EQ(run.of(Outcome::kFailed), 10U);
  EXPECT_NE(run.tally.causes().at("status 500").example.find("oh no"), std::string::npos);
}

TEST(Generator, TimesOutFromTheIntendedStartWhetherSentOrNot) {
  TestServer server{[](Exchange&) {}};  // The server never answers.
  Trial run{server};
  run.options.timeout = 300ms;
  run.options.max_in_flight = 3;
  run.source = at_rate(100.0, 100ms);
  run.go();
  EXPECT_EQ(run.of(Outcome::kTimedOut), 10U);
  EXPECT_EQ(run.tally.all().ttft_ms.count(), 10U);
  EXPECT_GE(run.tally.all().ttft_ms.quantile(0.0), 290.0);
}

TEST(Generator, CancelsRequestsInFlightWhenStopped) {
  TestServer server{[](Exchange&) {}};
  Trial run{server};
  run.options.concurrency = 4;
  run.source = timeless_source(RequestMix{{.input = LengthMix{10}}, 1}, 0);
  run.stop_after = 200ms;
  run.go();
  EXPECT_EQ(run.of(Outcome::kCancelled), 4U);
  EXPECT_EQ(run.tally.all().ended(), 0U);
  EXPECT_TRUE(server.wait_until([](const net::ServerCounters& counters) { return counters.open == 0; }));
}

TEST(Generator, ReportsAnUnreachableServer) {
  TestServer gone{answer};
  Trial run{gone};
  const auto taken = net::listen_on(net::Address{}, false);
  run.options.address = net::local_address(*taken);
  ::close(*taken);
  run.source = at_rate(100.0, 50ms);
  run.go();
  EXPECT_EQ(run.of(Outcome::kFailed), 5U);
  EXPECT_EQ(run.tally.causes().at("no connection").count, 5U);
}

}  // namespace
}  // namespace penstock::load
