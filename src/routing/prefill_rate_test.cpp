#include "routing/prefill_rate.h"

#include <gtest/gtest.h>

#include <cmath>

namespace penstock::routing {
namespace {

using namespace std::chrono_literals;
constexpr core::Instant kNow = core::kStart + 100s;
constexpr double kFleet = 8000.0;

// Observes first tokens of a replica that computes `tokens_per_s` with the latency `constant`.
void serve(PrefillRate& rate, double tokens_per_s, core::Duration constant, int times, core::Instant at = kNow) {
  for (int i = 0; i < times; ++i) {
    const double ahead = i % 4 * 1000.0, own = 500.0 + i % 3 * 700.0;
    rate.observe(ahead, own, constant + core::from_seconds((ahead + own) / tokens_per_s), at, kFleet);
  }
}

TEST(PrefillRate, EqualsTheFleetRateWithoutSamples) {
  const PrefillRate rate;
  EXPECT_DOUBLE_EQ(rate.tokens_per_s(kNow, 5000.0), 5000.0);
  EXPECT_DOUBLE_EQ(rate.constant_ms(), 0.0);
}

TEST(PrefillRate, ConvergesToTheObservedRate) {
  for (const double truth : {500.0, 4000.0, 30'000.0, 200'000.0}) {
    PrefillRate rate;
    serve(rate, truth, 0ms, 150);
    EXPECT_NEAR(rate.tokens_per_s(kNow, kFleet), truth, truth * 0.02);
  }
}

TEST(PrefillRate, ShortPromptsUpdateTheConstantAndNotTheRate) {
  PrefillRate rate;
  for (int i = 0; i < 400; ++i) EXPECT_FALSE(rate.observe(0.0, 10.0, 40ms, kNow, kFleet));
  EXPECT_NEAR(rate.constant_ms(), 39.0, 1.0);
  EXPECT_DOUBLE_EQ(rate.tokens_per_s(kNow, kFleet), kFleet);
  serve(rate, 16'000.0, 40ms, 60);
  EXPECT_NEAR(rate.tokens_per_s(kNow, kFleet), 16'000.0, 500.0);
}

TEST(PrefillRate, AnOutlierHasABoundedEffect) {
  PrefillRate rate;
  serve(rate, 10'000.0, 0ms, 60);
  rate.observe(0.0, 1000.0, 1h, kNow, kFleet);
  EXPECT_GT(rate.tokens_per_s(kNow, kFleet), 8'500.0);
  rate.observe(0.0, 1e6, 1us, kNow, kFleet);
  EXPECT_LT(rate.tokens_per_s(kNow, kFleet), 11'500.0);
}

// 1,024 tokens are a quarter of kFullTokens.
TEST(PrefillRate, ALongPromptWeighsMoreThanAShortOne) {
  PrefillRate by_short, by_long;
  serve(by_short, kFleet, 0ms, 400);
  serve(by_long, kFleet, 0ms, 400);
  by_short.observe(0.0, 1024.0, core::from_seconds(1024.0 / (2.0 * kFleet)), kNow, kFleet);
  by_long.observe(0.0, 8192.0, core::from_seconds(8192.0 / (2.0 * kFleet)), kNow, kFleet);
  EXPECT_NEAR(by_short.tokens_per_s(kNow, kFleet), std::pow(2.0, 0.025) * kFleet, 0.005 * kFleet);
  EXPECT_NEAR(by_long.tokens_per_s(kNow, kFleet), std::pow(2.0, 0.1) * kFleet, 0.005 * kFleet);
}

TEST(PrefillRate, StaysWithinBounds) {
  PrefillRate slow, fast;
  for (int i = 0; i < 1000; ++i) {
    slow.observe(0.0, 300.0, 10h, kNow, kFleet);
    fast.observe(0.0, 1e9, 1ms, kNow, kFleet);
  }
  EXPECT_NEAR(slow.tokens_per_s(kNow, kFleet), PrefillRate::kLowest, 1.0);
  EXPECT_NEAR(fast.tokens_per_s(kNow, kFleet), PrefillRate::kHighest, PrefillRate::kHighest * 0.01);
}

TEST(PrefillRate, DecaysToTheFleetRateWithoutSamples) {
  PrefillRate rate;
  serve(rate, 1000.0, 0ms, 60);
  EXPECT_NEAR(rate.tokens_per_s(kNow + 30s, kFleet), 1000.0, 20.0);
  const double half = rate.tokens_per_s(kNow + 90s, kFleet);
  EXPECT_GT(half, 2000.0);
  EXPECT_LT(half, 4000.0);
  EXPECT_DOUBLE_EQ(rate.tokens_per_s(kNow + 150s, kFleet), kFleet);
}

}  // namespace
}  // namespace penstock::routing
