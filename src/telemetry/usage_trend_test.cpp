#include "telemetry/usage_trend.h"

#include <gtest/gtest.h>

#include "core/random.h"

namespace penstock::telemetry {
namespace {

core::Instant at_s(double seconds) { return core::kStart + core::from_seconds(seconds); }

TEST(UsageTrend, PredictsWhenALineReachesOne) {
  UsageTrend trend;
  for (int second = 0; second <= 30; ++second) trend.observe(at_s(second), 0.4 + 0.01 * second);
  ASSERT_TRUE(trend.full_in());
  EXPECT_NEAR(core::to_seconds(*trend.full_in()), 30.0, 0.01);
  for (int second = 31; second <= 60; ++second) trend.observe(at_s(second), std::min(1.0, 0.4 + 0.01 * second));
  ASSERT_TRUE(trend.full_in());
  EXPECT_EQ(core::to_seconds(*trend.full_in()), 0.0) << "it is full";
}

TEST(UsageTrend, IsWithinATenthWithNoise) {
  core::RandomStream random{std::uint64_t{3}};
  for (int round = 0; round < 50; ++round) {
    UsageTrend trend;
    for (int second = 0; second <= 60; ++second)
      trend.observe(at_s(second), 0.2 + 0.005 * second + 0.01 * (random.uniform() - 0.5));
    ASSERT_TRUE(trend.full_in());
    EXPECT_NEAR(core::to_seconds(*trend.full_in()), 100.0, 10.0);
  }
}

TEST(UsageTrend, PredictsNothingThatDoesNotGrow) {
  core::RandomStream random{std::uint64_t{4}};
  int predicted = 0;
  for (int round = 0; round < 200; ++round) {
    UsageTrend flat, falling;
    for (int second = 0; second <= 60; ++second) {
      flat.observe(at_s(second), 0.5 + 0.2 * (random.uniform() - 0.5));
      falling.observe(at_s(second), 0.9 - 0.01 * second);
    }
    predicted += flat.full_in() ? 1 : 0;
    EXPECT_FALSE(falling.full_in());
  }
  EXPECT_LE(predicted, 4) << "of 200, by chance";
}

TEST(UsageTrend, NeedsEnoughObservations) {
  UsageTrend trend;
  EXPECT_FALSE(trend.full_in());
  for (int i = 0; i <= 9; ++i) {
    trend.observe(at_s(i), 0.1 + 0.01 * i);
    EXPECT_FALSE(trend.full_in()) << i;
  }
  trend.observe(at_s(10), 0.2);
  EXPECT_TRUE(trend.full_in());
  trend.observe(at_s(11), std::nullopt);
  EXPECT_FALSE(trend.full_in()) << "an unknown usage ends the trend";
  UsageTrend slow;
  for (int i = 0; i <= 60; ++i) slow.observe(at_s(i), 0.1 + 0.0001 * i);
  EXPECT_FALSE(slow.full_in()) << "2.5 hours are too far";
}

}  // namespace
}  // namespace penstock::telemetry
