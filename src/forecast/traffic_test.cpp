#include "forecast/traffic.h"

#include <gtest/gtest.h>

#include <limits>

#include "forecast/forecast_testing.h"

namespace penstock::forecast {
namespace {

using std::chrono::seconds;

TrafficForecaster make_forecaster(TrafficOptions options = {}) {
  auto forecaster = TrafficForecaster::make(options);
  PENSTOCK_ASSERT(forecaster.has_value(), "tests ask for forecasters that exist");
  return std::move(*forecaster);
}

TEST(TrafficForecaster, ForecastsEachSeriesFromItsOwnSamples) {
  TrafficForecaster forecaster = make_forecaster();
  for (int i = 1; i <= 200; ++i) forecaster.observe({at_s(10.0 * i), 3.0, 900.0, 200.0});
  const TrafficForecast forecast = forecaster.forecast(seconds{120});
  EXPECT_NEAR(forecast.requests_per_s->level.mean, 3.0, 1e-6);
  EXPECT_NEAR(forecast.input_tokens->level.mean, 900.0, 1e-3);
  EXPECT_NEAR(forecast.output_tokens->level.mean, 200.0, 1e-3);
}

TEST(TrafficForecaster, AnIntervalWithoutRequestsHasARateButNoLength) {
  TrafficForecaster forecaster = make_forecaster();
  for (int i = 1; i <= 400; ++i) {
    const bool quiet = i % 2 == 0;
    forecaster.observe({at_s(10.0 * i), quiet ? 0.0 : 4.0, quiet ? std::nullopt : std::optional{900.0}, std::nullopt});
  }
  const TrafficForecast forecast = forecaster.forecast(seconds{120});
  EXPECT_NEAR(forecast.requests_per_s->level.mean, 2.0, 0.2);
  EXPECT_NEAR(forecast.input_tokens->level.mean, 900.0, 1.0);
  EXPECT_FALSE(forecast.output_tokens);
  EXPECT_GT(forecaster.accuracy(Series::kInputTokens).scored, 100U);
}

TEST(TrafficForecaster, ARefusedValueOfOneSeriesDoesNotTouchTheOthers) {
  TrafficForecaster forecaster = make_forecaster();
  forecaster.observe({at_s(10), std::numeric_limits<double>::quiet_NaN(), 900.0, -1.0});
  EXPECT_EQ(forecaster.rejections(Series::kRequestRate).not_finite, 1U);
  EXPECT_EQ(forecaster.rejections(Series::kOutputTokens).out_of_range, 1U);
  EXPECT_FALSE(forecaster.forecast(seconds{60}).requests_per_s);
  EXPECT_TRUE(forecaster.forecast(seconds{60}).input_tokens);
}

TEST(TrafficForecaster, HistoryWarmsQuantilesAndAccuracy) {
  TrafficForecaster forecaster = make_forecaster();
  const auto rates = bursty_rates([](double) { return 5.0; }, 4.0, 10.0, 1000, 31);
  for (std::size_t i = 0; i < rates.size(); ++i)
    forecaster.observe({at_s(10.0 * static_cast<double>(i + 1)), rates[i], std::nullopt, std::nullopt});
  EXPECT_GE(forecaster.forecast(seconds{120}).requests_per_s->outcomes, kFewOutcomes);
  const AccuracyReport report = forecaster.accuracy(Series::kRequestRate);
  EXPECT_GT(report.scored, 900U);
  EXPECT_LT(report.ratio(), 0.7);  // the last ten seconds of bursty traffic say little
}

TEST(TrafficForecaster, AWrongPredictorIsAnErrorThatNamesTheSeries) {
  TrafficOptions options;
  options.length_predictor = "none";
  const auto forecaster = TrafficForecaster::make(options);
  ASSERT_FALSE(forecaster);
  EXPECT_EQ(forecaster.error().where, "forecast of input_tokens: predictor");
}

TEST(TrafficForecaster, ItsHorizonIsOneOfThoseThatQuantilesAreCollectedAt) {
  TrafficOptions options;
  options.horizon = seconds{180};
  options.rate_predictor = "constant";
  TrafficForecaster forecaster = make_forecaster(options);
  for (int i = 1; i <= 25; ++i) forecaster.observe({at_s(10.0 * i), 3.0, std::nullopt, std::nullopt});
  // 18 intervals: one outcome every 4 intervals from the 18th on, while that of 240 s has none before the 24th.
  EXPECT_GT(forecaster.forecast(seconds{180}).requests_per_s->outcomes, 0U);
}

}  // namespace
}  // namespace penstock::forecast
