#include "routing/prefill_rate.h"

#include <gtest/gtest.h>

#include <cmath>

namespace penstock::routing {
namespace {

using namespace std::chrono_literals;
constexpr core::Instant kNow = core::kStart + 100s;
constexpr double kFirst = 8000.0;

core::Duration time_of(double tokens, double tokens_per_s, core::Duration constant = {}) {
  return constant + core::from_seconds(tokens / tokens_per_s);
}

// Observes first tokens of a replica that computes `tokens_per_s` with the latency `constant`.
void serve(PrefillRate& rate, FleetSpeed& fleet, double tokens_per_s, core::Duration constant, int times,
           int first = 0) {
  for (int i = first; i < first + times; ++i) {
    const double ahead = i % 4 * 1000.0, own = 500.0 + i % 3 * 700.0;
    rate.observe(ahead, own, time_of(ahead + own, tokens_per_s, constant), kNow, fleet);
  }
}

TEST(PrefillRate, EqualsTheFleetRateWithoutSamples) {
  const FleetSpeed fleet{5000.0};
  const PrefillRate rate;
  EXPECT_NEAR(rate.tokens_per_s(kNow, fleet), 5000.0, 1e-6);
  EXPECT_DOUBLE_EQ(rate.constant_ms(fleet), 0.0);
}

TEST(PrefillRate, ConvergesToTheObservedRate) {
  for (const double truth : {500.0, 4000.0, 30'000.0, 200'000.0}) {
    FleetSpeed fleet{kFirst};
    PrefillRate rate;
    serve(rate, fleet, truth, 0ms, 150);
    EXPECT_NEAR(rate.tokens_per_s(kNow, fleet), truth, truth * 0.02);
    EXPECT_NEAR(fleet.tokens_per_s(), truth, truth * 0.02);
  }
}

TEST(PrefillRate, ShortPromptsUpdateTheConstantAndNotTheRate) {
  FleetSpeed fleet{kFirst};
  PrefillRate rate;
  for (int i = 0; i < 400; ++i) rate.observe(0.0, 10.0, 40ms, kNow, fleet);
  EXPECT_NEAR(rate.constant_ms(fleet), 39.0, 1.0);
  EXPECT_NEAR(rate.tokens_per_s(kNow, fleet), kFirst, 1e-6);
  serve(rate, fleet, 16'000.0, 40ms, 60);
  EXPECT_NEAR(rate.tokens_per_s(kNow, fleet), 16'000.0, 500.0);
}

TEST(PrefillRate, AnOutlierHasABoundedEffect) {
  FleetSpeed fleet{kFirst};
  PrefillRate rate;
  serve(rate, fleet, 10'000.0, 0ms, 60);
  rate.observe(0.0, 1000.0, 1h, kNow, fleet);
  EXPECT_GT(rate.tokens_per_s(kNow, fleet), 8'500.0);
  rate.observe(0.0, 1e6, 1us, kNow, fleet);
  EXPECT_LT(rate.tokens_per_s(kNow, fleet), 13'000.0);
}

// A sample moves the rate of the fleet and the factor of its only replica. 1,024 tokens are a quarter of kFullTokens.
TEST(PrefillRate, ALongPromptWeighsMoreThanAShortOne) {
  for (const auto& [tokens, power] : {std::pair{1024.0, 0.05}, {4096.0, 0.2}}) {
    FleetSpeed fleet{kFirst};
    PrefillRate rate;
    serve(rate, fleet, kFirst, 0ms, 400);
    rate.observe(0.0, tokens, time_of(tokens, 2.0 * kFirst), kNow, fleet);
    EXPECT_NEAR(rate.tokens_per_s(kNow, fleet), std::pow(2.0, power) * kFirst, 0.005 * kFirst);
  }
}

TEST(PrefillRate, StaysWithinBounds) {
  FleetSpeed slow_fleet{kFirst}, fast_fleet{kFirst};
  PrefillRate slow, fast;
  for (int i = 0; i < 1000; ++i) {
    slow.observe(0.0, 300.0, 10h, kNow, slow_fleet);
    fast.observe(0.0, 1e9, 1ms, kNow, fast_fleet);
  }
  EXPECT_NEAR(slow.tokens_per_s(kNow, slow_fleet), PrefillRate::kLowest, 1.0);
  EXPECT_NEAR(fast.tokens_per_s(kNow, fast_fleet), PrefillRate::kHighest, PrefillRate::kHighest * 0.01);
}

// Two replicas of which one is eight times as fast.
TEST(PrefillRate, DecaysToTheFleetRateWithoutSamples) {
  FleetSpeed fleet{kFirst};
  PrefillRate slow, fast;
  for (int i = 0; i < 200; ++i) {
    serve(slow, fleet, 1000.0, 0ms, 1, i);
    serve(fast, fleet, 8000.0, 0ms, 4, 4 * i);
  }
  const double learned = slow.tokens_per_s(kNow + 30s, fleet);
  EXPECT_NEAR(learned, 1000.0, 150.0);
  EXPECT_NEAR(fast.tokens_per_s(kNow + 30s, fleet), 8000.0, 1200.0);
  EXPECT_GT(fleet.tokens_per_s(), 4000.0);
  EXPECT_NEAR(slow.tokens_per_s(kNow + 90s, fleet), std::sqrt(learned * fleet.tokens_per_s()), 1.0);
  EXPECT_NEAR(slow.tokens_per_s(kNow + 150s, fleet), fleet.tokens_per_s(), 1e-6);
}

// Each iteration takes 10 ms beside its prompts.
TEST(PrefillRate, ShortPromptsDoNotMakeAReplicaLookSlow) {
  FleetSpeed fleet{kFirst};
  PrefillRate with_short, with_long;
  for (int i = 0; i < 200; ++i) {
    with_short.observe(0.0, 300.0, time_of(300.0, 40'000.0, 10ms), kNow, fleet);
    with_long.observe(0.0, 4000.0, time_of(4000.0, 40'000.0, 10ms), kNow, fleet);
  }
  const double by_long = with_long.tokens_per_s(kNow, fleet);
  EXPECT_NEAR(with_short.tokens_per_s(kNow, fleet), by_long, 0.05 * by_long);
  EXPECT_GT(by_long, 25'000.0);
}

TEST(PrefillRate, AReplicaBeginsWithTheConstantOfTheFleet) {
  FleetSpeed fleet{kFirst};
  PrefillRate known, fresh;
  for (int i = 0; i < 400; ++i) known.observe(0.0, 10.0, 40ms, kNow, fleet);
  EXPECT_NEAR(fresh.constant_ms(fleet), 39.0, 1.0);
  fresh.observe(0.0, 10.0, 10ms, kNow, fleet);
  EXPECT_GT(fresh.constant_ms(fleet), 0.7 * known.constant_ms(fleet));
  for (int i = 0; i < 400; ++i) {
    known.observe(0.0, 10.0, 40ms, kNow, fleet);
    fresh.observe(0.0, 10.0, 10ms, kNow, fleet);
  }
  EXPECT_NEAR(fresh.constant_ms(fleet), 9.0, 3.0);
}

TEST(PrefillRate, AnAnswerThatTookNoTimeIsNoSample) {
  FleetSpeed fleet{kFirst};
  PrefillRate rate;
  rate.observe(0.0, 10.0, 40ms, kNow, fleet);
  rate.observe(0.0, 10.0, 0ms, kNow, fleet);
  EXPECT_NEAR(rate.constant_ms(fleet), 39.0, 1.0);
}

}  // namespace
}  // namespace penstock::routing
