#include "core/sketch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/random.h"

namespace penstock::core {
namespace {

std::vector<double> skewed_values(std::uint64_t seed, std::size_t count) {
  RandomStream random{seed};
  std::vector<double> values(count);
  for (double& value : values) value = random.log_normal(20.0, 2.0);
  return values;
}

QuantileSketch sketch_of(const std::vector<double>& values) {
  QuantileSketch sketch;
  for (const double value : values) sketch.add(value);
  return sketch;
}

TEST(QuantileSketch, StaysWithinItsRelativeErrorAtEveryQuantile) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    auto values = skewed_values(seed, 1 + 137 * seed);
    const QuantileSketch sketch = sketch_of(values);
    std::sort(values.begin(), values.end());
    for (double quantile = 0.0; quantile <= 1.0; quantile += 0.01) {
      const double exact = values[static_cast<std::size_t>(quantile * static_cast<double>(values.size() - 1))];
      EXPECT_NEAR(sketch.quantile(quantile), exact, exact * QuantileSketch::kRelativeError * 1.0001);
    }
  }
}

TEST(QuantileSketch, MergesToWhatOneSketchOfAllWouldHold) {
  const auto left = skewed_values(1, 500), right = skewed_values(2, 300);
  std::vector<double> all = left;
  all.insert(all.end(), right.begin(), right.end());
  QuantileSketch merged = sketch_of(left);
  merged.merge(sketch_of(right));
  merged.merge(QuantileSketch{});
  QuantileSketch from_nothing;
  from_nothing.merge(merged);
  const QuantileSketch whole = sketch_of(all);
  for (const QuantileSketch* sketch : {&merged, &from_nothing}) {
    EXPECT_EQ(sketch->count(), whole.count());
    EXPECT_EQ(sketch->max(), whole.max());
    EXPECT_NEAR(sketch->sum(), whole.sum(), 1e-6);
    for (double quantile = 0.0; quantile <= 1.0; quantile += 0.05)
      EXPECT_EQ(sketch->quantile(quantile), whole.quantile(quantile));
  }
}

TEST(QuantileSketch, AnswersForNothingAndForZeros) {
  QuantileSketch sketch;
  EXPECT_EQ(sketch.quantile(0.5), 0.0);
  EXPECT_EQ(sketch.mean(), 0.0);
  EXPECT_EQ(sketch.share_at_most(1.0), 1.0);
  sketch.add(0.0, 3);
  sketch.add(10.0);
  EXPECT_EQ(sketch.quantile(0.5), 0.0);
  EXPECT_NEAR(sketch.quantile(1.0), 10.0, 0.1);
  EXPECT_DOUBLE_EQ(sketch.mean(), 2.5);
  EXPECT_DOUBLE_EQ(sketch.share_at_most(1.0), 0.75);
  EXPECT_DOUBLE_EQ(sketch.share_at_most(10.0), 1.0);
}

TEST(QuantileSketch, ShareAtMostIsRightOutsideTheErrorBand) {
  const auto values = skewed_values(7, 2000);
  const QuantileSketch sketch = sketch_of(values);
  for (const double limit : {0.5, 5.0, 20.0, 100.0, 1000.0}) {
    const auto below = [&](double at) {
      return static_cast<double>(std::count_if(values.begin(), values.end(), [&](double v) { return v <= at; })) /
             2000.0;
    };
    EXPECT_GE(sketch.share_at_most(limit), below(limit));
    EXPECT_LE(sketch.share_at_most(limit), below(limit * 1.0203));
  }
}

TEST(Summary, IsWhatLinearInterpolationGives) {
  std::vector<float> values;
  for (int i = 10; i >= 0; --i) values.push_back(static_cast<float>(10 * i));  // 0, 10, … 100
  const Summary summary = summarize(values);
  EXPECT_DOUBLE_EQ(summary.mean, 50.0);
  EXPECT_DOUBLE_EQ(summary.p50, 50.0);
  EXPECT_DOUBLE_EQ(summary.p90, 90.0);
  EXPECT_NEAR(summary.p95, 95.0, 1e-9);
  EXPECT_NEAR(summary.p99, 99.0, 1e-9);
  EXPECT_DOUBLE_EQ(summary.max, 100.0);
}

TEST(Summary, OfNothingIsZeroAndOfOneIsThatOne) {
  std::vector<float> none, one = {4.0F};
  EXPECT_EQ(summarize(none).max, 0.0);
  const Summary summary = summarize(one);
  for (const double figure : {summary.mean, summary.p50, summary.p90, summary.p95, summary.p99, summary.max})
    EXPECT_EQ(figure, 4.0);
}

}  // namespace
}  // namespace penstock::core
