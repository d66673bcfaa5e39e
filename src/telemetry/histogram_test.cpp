#include "telemetry/histogram.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

namespace penstock::telemetry {
namespace {

constexpr std::array kBounds = {1.0, 2.0, 4.0};

TEST(Histogram, CountsAValueOnABoundBelowIt) {
  Histogram histogram{kBounds};
  histogram.add(1.0);
  histogram.add(1.5, 2);
  histogram.add(9.0);
  EXPECT_EQ(histogram.counts, (std::vector<std::uint64_t>{1, 2, 0, 1}));
  EXPECT_EQ(histogram.count(), 4U);
  EXPECT_DOUBLE_EQ(histogram.sum, 13.0);
}

// The figures are those of Prometheus' histogram_quantile().
TEST(Histogram, DrawsStraightLinesBetweenBounds) {
  Histogram histogram{kBounds};
  EXPECT_EQ(histogram.quantile(0.5), 0.0);
  histogram.counts = {10, 0, 10, 0};
  EXPECT_DOUBLE_EQ(histogram.quantile(0.25), 0.5);
  EXPECT_DOUBLE_EQ(histogram.quantile(0.5), 1.0);
  EXPECT_DOUBLE_EQ(histogram.quantile(0.75), 3.0);
  EXPECT_DOUBLE_EQ(histogram.quantile(1.0), 4.0);
  histogram.counts = {0, 0, 0, 5};
  EXPECT_DOUBLE_EQ(histogram.quantile(0.5), 4.0);
}

TEST(Histogram, ComputesTheDifferenceOfTwoReadings) {
  Histogram before{kBounds}, after{kBounds};
  before.add(1.0);
  after.add(1.0);
  after.add(3.0);
  const auto between = difference(before, after);
  ASSERT_TRUE(between);
  EXPECT_EQ(between->counts, (std::vector<std::uint64_t>{0, 0, 1, 0}));
  EXPECT_DOUBLE_EQ(between->sum, 3.0);
  EXPECT_FALSE(difference(after, before));
  EXPECT_FALSE(difference(Histogram{}, after));
}

TEST(Histogram, AddsOnlyWithTheSameBounds) {
  Histogram sum, one{kBounds};
  one.add(3.0);
  EXPECT_TRUE(add_counts(sum, one));
  EXPECT_TRUE(add_counts(sum, one));
  EXPECT_EQ(sum.counts[2], 2U);
  EXPECT_FALSE(add_counts(sum, Histogram{ttft_bounds_s()}));
}

TEST(Histogram, HasTheUsualLimitsAmongItsBounds) {
  for (const auto bounds :
       {ttft_bounds_s(), itl_bounds_s(), request_bounds_s(), iteration_token_bounds(), length_bounds()})
    EXPECT_TRUE(std::is_sorted(bounds.begin(), bounds.end(), std::less_equal<>{}));
  EXPECT_TRUE(std::binary_search(ttft_bounds_s().begin(), ttft_bounds_s().end(), 2.0));
  EXPECT_TRUE(std::binary_search(itl_bounds_s().begin(), itl_bounds_s().end(), 0.05));
}

}  // namespace
}  // namespace penstock::telemetry
