#include "forecast/accuracy.h"

#include <gtest/gtest.h>

#include <cmath>

#include "forecast/forecast_testing.h"

namespace penstock::forecast {
namespace {

using std::chrono::seconds;

Forecast flat(double mean, double p90) {
  Forecast forecast;
  forecast.level.mean = mean;
  forecast.level.quantiles.fill(p90);
  forecast.peak = forecast.level;
  return forecast;
}

Point point(std::int64_t step, double value) {
  return {step, at_s(10.0 * static_cast<double>(step + 1)), value, false};
}

TEST(Accuracy, ScoresAForecastWhenItsHorizonHasPassedAndNotBefore) {
  Accuracy accuracy(seconds{10}, seconds{20});
  accuracy.settle(point(0, 10.0));
  accuracy.add(point(0, 10.0), flat(13.0, 18.0));
  accuracy.settle(point(1, 12.0));
  EXPECT_EQ(accuracy.report().scored, 0U);
  accuracy.settle(point(2, 18.0));  // Level 15.
  const AccuracyReport report = accuracy.report();
  EXPECT_EQ(report.scored, 1U);
  EXPECT_EQ(report.error, 2.0);
  EXPECT_EQ(report.naive_error, 5.0);
  EXPECT_EQ(report.bias, -2.0);
  EXPECT_NEAR(report.ratio(), 0.4, 1e-12);
  EXPECT_NEAR(report.pinball_p90, 0.1 * 3.0, 1e-12);
  EXPECT_EQ(report.below_p90, 1.0);
  EXPECT_EQ(report.peak_below_p90, 1.0);
}

TEST(Accuracy, DropsForecastsOfUnobservedTime) {
  Accuracy accuracy(seconds{10}, seconds{40});
  accuracy.settle(point(0, 10.0));
  accuracy.add(point(0, 10.0), flat(10.0, 10.0));
  accuracy.settle(point(4, 10.0));
  EXPECT_EQ(accuracy.report().scored, 0U);
}

TEST(Accuracy, DropsForecastsThatAJumpOfTheClockCut) {
  Accuracy accuracy(seconds{10}, seconds{10});
  accuracy.settle(point(0, 10.0));
  accuracy.add(point(0, 10.0), flat(10.0, 10.0));
  accuracy.settle({1, at_s(9999), 50.0, true});
  EXPECT_EQ(accuracy.report().scored, 0U);
}

TEST(Accuracy, ForgetsBeyondItsLimit) {
  Accuracy accuracy(seconds{10}, seconds{10}, {}, 5);
  for (std::int64_t step = 0; step < 50; ++step) {
    accuracy.settle(point(step, 1.0));
    accuracy.add(point(step, 1.0), flat(step < 40 ? 9.0 : 2.0, 9.0));
  }
  EXPECT_EQ(accuracy.report().scored, 5U);
  EXPECT_EQ(accuracy.report().error, 1.0);
}

TEST(Accuracy, TheRatioWithoutANaiveErrorIsOneOrInfinite) {
  AccuracyReport report;
  EXPECT_EQ(report.ratio(), 1.0);
  report.error = 0.1;
  EXPECT_TRUE(std::isinf(report.ratio()));
}

}  // namespace
}  // namespace penstock::forecast
