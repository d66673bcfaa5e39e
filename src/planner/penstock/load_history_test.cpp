#include "planner/penstock/load_history.h"

#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <vector>

#include "planner/planner_testing.h"

namespace penstock::planner {
namespace {

using testing::at_s;

// A pool whose counters grow at every tick of 5 s.
class Traffic {
 public:
  // Prompts of these tokens arrive, and are answered with `output` tokens each.
  std::optional<LoadMinute> tick(std::uint64_t requests, std::uint64_t input, std::uint64_t output = 0) {
    return tick_after(5.0, requests, input, output);
  }
  std::optional<LoadMinute> tick_after(double seconds, std::uint64_t requests, std::uint64_t input,
                                       std::uint64_t output = 0) {
    now_s += seconds;
    pool.arrivals_total += requests;
    pool.input_tokens_total += input;
    generated += output;
    return history.observe(at_s(now_s), pool, generated);
  }
  // The minutes that end in that many ticks of the same traffic.
  std::vector<LoadMinute> ticks(int count, std::uint64_t requests, std::uint64_t input, std::uint64_t output = 0) {
    std::vector<LoadMinute> minutes;
    for (int i = 0; i < count; ++i)
      if (auto minute = tick(requests, input, output)) minutes.push_back(*minute);
    return minutes;
  }
  [[nodiscard]] double peak() const { return history.peak(at_s(now_s - 60), at_s(now_s)); }

  LoadHistory history;
  signals::FleetTraffic pool;
  std::uint64_t generated = 0;
  double now_s = 1000.0;
};

Traffic begun() {
  Traffic traffic;
  (void)traffic.tick(0, 0);
  return traffic;
}

TEST(LoadHistory, MinuteHasThePeakOfTenSecondsAndTheMean) {
  Traffic traffic = begun();
  (void)traffic.ticks(4, 1, 500);
  (void)traffic.ticks(2, 10, 5000, 0);  // 10 s at ten times the rate.
  const auto minutes = traffic.ticks(6, 1, 500);
  ASSERT_EQ(minutes.size(), 1U);
  EXPECT_DOUBLE_EQ(minutes[0].requests, 30.0);
  const double tokens = 500.0 + kOutputTokenLoad * 200.0;  // Of a request, while output lengths are unknown.
  EXPECT_DOUBLE_EQ(minutes[0].mean, 30.0 * tokens / 60.0);
  EXPECT_DOUBLE_EQ(minutes[0].peak, 20.0 * tokens / 10.0);
}

TEST(LoadHistory, GeneratedTokensReplaceTheAssumedOutput) {
  Traffic traffic = begun();
  const auto minutes = traffic.ticks(12, 1, 500, 100);
  ASSERT_EQ(minutes.size(), 1U);
  EXPECT_DOUBLE_EQ(minutes[0].mean, (500.0 + kOutputTokenLoad * 100.0) / 5.0);
}

TEST(LoadHistory, OutputLengthsOfCompletedRequestsCountWhereEnginesReportNone) {
  Traffic traffic = begun();
  traffic.pool.last_minute.completed = 4;
  traffic.pool.last_minute.completed_output_tokens = 40;
  const auto minutes = traffic.ticks(12, 1, 500);
  ASSERT_EQ(minutes.size(), 1U);
  EXPECT_DOUBLE_EQ(minutes[0].mean, (500.0 + kOutputTokenLoad * 10.0) / 5.0);
}

TEST(LoadHistory, IntervalsLongerThanTenSecondsAreSpreadOverTheirLength) {
  Traffic traffic = begun();
  (void)traffic.tick_after(30.0, 0, 30'000, 1);
  EXPECT_NEAR(traffic.peak(), 1000.0, 1.0);
}

TEST(LoadHistory, PeakIsThatOfTheGivenTime) {
  Traffic traffic = begun();
  (void)traffic.ticks(12, 0, 500, 1);
  const double quiet_from = traffic.now_s;
  (void)traffic.ticks(2, 0, 5000, 1);
  const double burst_to = traffic.now_s;
  (void)traffic.ticks(24, 0, 500, 1);
  const auto peak = [&](double from_s, double to_s) { return traffic.history.peak(at_s(from_s), at_s(to_s)); };
  EXPECT_NEAR(peak(quiet_from, burst_to), 1000.0, 1.0);
  EXPECT_NEAR(peak(0, quiet_from), 100.0, 1.0);
  EXPECT_NEAR(peak(burst_to + 10, traffic.now_s), 100.0, 1.0);
  EXPECT_DOUBLE_EQ(peak(traffic.now_s, traffic.now_s + 60), 0.0);
  EXPECT_DOUBLE_EQ(LoadHistory{}.peak(at_s(0), at_s(60)), 0.0);
}

TEST(LoadHistory, PeakForgetsAfterTwentyMinutes) {
  Traffic traffic = begun();
  (void)traffic.ticks(2, 0, 50'000, 1);
  (void)traffic.ticks(19 * 12, 0, 500, 1);
  EXPECT_GT(traffic.history.peak(at_s(0), at_s(traffic.now_s)), 5000.0);
  (void)traffic.ticks(2 * 12, 0, 500, 1);
  EXPECT_LT(traffic.history.peak(at_s(0), at_s(traffic.now_s)), 200.0);
}

TEST(LoadHistory, CounterResetLeavesTheIntervalOut) {
  for (std::uint64_t signals::FleetTraffic::*counter :
       {&signals::FleetTraffic::arrivals_total, &signals::FleetTraffic::input_tokens_total}) {
    Traffic traffic = begun();
    (void)traffic.ticks(8, 1, 500, 100);
    traffic.pool.*counter = 0;
    EXPECT_FALSE(traffic.tick(0, 0, 100));
    EXPECT_DOUBLE_EQ(traffic.peak(), 0.0);
    const auto minutes = traffic.ticks(12, 1, 500, 100);  // A whole minute begins anew.
    ASSERT_EQ(minutes.size(), 1U);
    EXPECT_DOUBLE_EQ(minutes[0].mean, 160.0);
    EXPECT_DOUBLE_EQ(minutes[0].peak, 160.0);
  }
}

TEST(LoadHistory, ResetOfGeneratedTokensLeavesTheIntervalOut) {
  Traffic traffic = begun();
  (void)traffic.ticks(8, 1, 500, 100);
  traffic.generated = 0;
  EXPECT_FALSE(traffic.tick(1, 500, 0));
  EXPECT_DOUBLE_EQ(traffic.peak(), 0.0);
}

TEST(LoadHistory, ClockJumpsLeaveTheIntervalOut) {
  for (const double jump : {-600.0, 0.0, 120.0, 86'400.0}) {
    Traffic traffic = begun();
    (void)traffic.ticks(8, 1, 500, 100);
    EXPECT_FALSE(traffic.tick_after(jump, 1, 5'000'000, 100)) << jump;
    EXPECT_DOUBLE_EQ(traffic.peak(), 0.0) << jump;
    const auto minutes = traffic.ticks(12, 1, 500, 100);
    ASSERT_EQ(minutes.size(), 1U) << jump;
    EXPECT_DOUBLE_EQ(minutes[0].peak, 160.0) << jump;
  }
}

TEST(LoadHistory, TheFirstTickCountsNothing) {
  Traffic traffic;
  EXPECT_FALSE(traffic.tick(1'000'000, 1'000'000'000, 1'000'000'000));  // Totals since the start of the engines.
  EXPECT_DOUBLE_EQ(traffic.peak(), 0.0);
}

TEST(LoadHistory, IdleMinuteIsZero) {
  Traffic traffic = begun();
  const auto minutes = traffic.ticks(12, 0, 0);
  ASSERT_EQ(minutes.size(), 1U);
  EXPECT_DOUBLE_EQ(minutes[0].peak, 0.0);
  EXPECT_DOUBLE_EQ(minutes[0].mean, 0.0);
  EXPECT_DOUBLE_EQ(minutes[0].requests, 0.0);
}

TEST(LoadHistory, ContinuesFromItsArchive) {
  Traffic traffic = begun();
  (void)traffic.ticks(9, 1, 700, 100);
  core::StateArchive saved;
  traffic.history.archive(saved);
  Traffic restored = traffic;
  restored.history = {};
  core::StateArchive read{saved.text()};
  restored.history.archive(read);
  ASSERT_TRUE(read.finish());
  const auto minutes = traffic.ticks(3, 2, 900, 50), same = restored.ticks(3, 2, 900, 50);
  ASSERT_EQ(minutes.size(), 1U);
  ASSERT_EQ(same.size(), 1U);
  EXPECT_EQ(minutes[0].peak, same[0].peak);
  EXPECT_EQ(minutes[0].mean, same[0].mean);
  EXPECT_EQ(traffic.peak(), restored.peak());
}

}  // namespace
}  // namespace penstock::planner
