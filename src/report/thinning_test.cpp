#include "report/thinning.h"

#include <gtest/gtest.h>

#include "report/report_testing.h"

namespace penstock::report {
namespace {

using decision::SeriesPoint;

SeriesPoint point_at(std::uint64_t second) {
  SeriesPoint point;
  point.at = testing::at_second(second);
  return point;
}

TEST(Thinning, LeavesAShortSeriesAsItIs) {
  const auto series = testing::sample_result({"kpa", 2, 8, 0.5, 1.0}, 60).series;
  EXPECT_EQ(thin(series, 60).size(), 60U);
  EXPECT_EQ(thin({}, 10).size(), 0U);
}

TEST(Thinning, GivesNoMorePointsThanAskedForAndKeepsTheEnd) {
  const auto series = testing::sample_result({"kpa", 2, 8, 0.5, 1.0}, 100).series;
  for (std::size_t points : {0U, 1U, 7U, 33U, 50U, 99U}) {
    const auto thinned = thin(series, points);
    EXPECT_LE(thinned.size(), std::max<std::size_t>(1, points));
    EXPECT_EQ(thinned.back().at, series.back().at);
    EXPECT_EQ(thinned.back().target, series.back().target);
  }
}

TEST(Thinning, LosesNoRequest) {
  const auto series = testing::sample_result({"kpa", 2, 8, 0.5, 1.0}, 100).series;
  const auto total = [](const std::vector<SeriesPoint>& points) {
    std::uint64_t sum = 0;
    for (const SeriesPoint& point : points) sum += point.arrived + 1000 * point.met_slo;
    return sum;
  };
  EXPECT_EQ(total(thin(series, 9)), total(series));
}

TEST(Thinning, KeepsTheIntegralOfARateOverUnequalIntervals) {
  SeriesPoint first = point_at(10), second = point_at(40);
  first.arrivals_per_s = 4.0;
  second.arrivals_per_s = 8.0;
  const auto thinned = thin({first, second}, 1);
  EXPECT_DOUBLE_EQ(thinned.front().arrivals_per_s, (4.0 * 10 + 8.0 * 30) / 40.0);
}

TEST(Thinning, KeepsTheWorstValues) {
  SeriesPoint first = point_at(10), second = point_at(20);
  first.queued_requests = 90;
  first.kv_usage = 0.75;
  first.first_tokens = 1;
  first.ttft_p95_ms = 4000.0;
  second.first_tokens = 9;
  second.ttft_p95_ms = 100.0;
  const SeriesPoint merged = thin({first, second}, 1).front();
  EXPECT_EQ(merged.queued_requests, 90U);
  EXPECT_EQ(merged.kv_usage, 0.75);
  EXPECT_EQ(merged.ttft_p95_ms, 4000.0);
}

TEST(Thinning, WeighsMediansByWhatTheyWereTakenFrom) {
  SeriesPoint first = point_at(10), second = point_at(20);
  first.first_tokens = 1;
  first.ttft_p50_ms = 1000.0;
  second.first_tokens = 3;
  second.ttft_p50_ms = 200.0;
  EXPECT_DOUBLE_EQ(thin({first, second}, 1).front().ttft_p50_ms, 400.0);
}

TEST(Thinning, TakesNoPercentileFromAnIntervalWithoutEvents) {
  SeriesPoint empty = point_at(20), measured = point_at(10);
  empty.ttft_p95_ms = empty.itl_p95_ms = 9999.0;
  measured.first_tokens = measured.completed = 2;
  measured.ttft_p95_ms = 300.0;
  measured.itl_p95_ms = 30.0;
  const SeriesPoint merged = thin({measured, empty}, 1).front();
  EXPECT_EQ(merged.ttft_p95_ms, 300.0);
  EXPECT_EQ(merged.itl_p95_ms, 30.0);
}

}  // namespace
}  // namespace penstock::report
