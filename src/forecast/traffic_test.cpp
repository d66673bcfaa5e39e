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
  EXPECT_LT(report.ratio(), 0.7);  // The last ten seconds of bursty traffic have little predictive value.
}

TEST(TrafficForecaster, AccuracyIsOfTheLatestScoresOnly) {
  TrafficOptions options;
  options.rate_predictor = "constant";
  options.scores_max = 30;
  TrafficForecaster forecaster = make_forecaster(options);
  for (int i = 1; i <= 100; ++i)
    forecaster.observe({at_s(10.0 * i), i % 2 == 0 ? 9.0 : 1.0, std::nullopt, std::nullopt});
  for (int i = 101; i <= 200; ++i) forecaster.observe({at_s(10.0 * i), 5.0, std::nullopt, std::nullopt});
  EXPECT_EQ(forecaster.accuracy(Series::kRequestRate).scored, 30U);
  EXPECT_NEAR(forecaster.accuracy(Series::kRequestRate).error, 0.0, 1e-9);
}

TEST(AlignedHistory, MovesTheLastSampleToTheEnd) {
  const std::vector<TrafficSample> history = {{at_s(70), 1.0, 500.0, 20.0}, {at_s(100), 2.0, 600.0, std::nullopt}};
  const auto aligned = aligned_history(history, seconds{30}, core::kStart);
  ASSERT_EQ(aligned.size(), 2U);
  EXPECT_EQ(aligned[0].at, at_s(-30));
  EXPECT_EQ(aligned[0].requests_per_s, 1.0);
  EXPECT_EQ(aligned[0].output_tokens, 20.0);
  EXPECT_EQ(aligned[1].at, core::kStart);
  EXPECT_EQ(aligned[1].input_tokens, 600.0);
  EXPECT_FALSE(aligned[1].output_tokens);
}

TEST(AlignedHistory, ShorterSamplesBecomeOneMeanInWhichLengthsWeighByRequests) {
  const std::vector<TrafficSample> history = {{at_s(10), 3.0, 100.0, std::nullopt},
                                              {at_s(20), 1.0, 500.0, 10.0},
                                              {at_s(30), 0.0, std::nullopt, std::nullopt},
                                              {at_s(40), 4.0, 100.0, 30.0}};
  const auto aligned = aligned_history(history, seconds{30}, at_s(1000));
  ASSERT_EQ(aligned.size(), 2U);  // The sample at 10 s is alone in its interval, which ends at 10 s.
  EXPECT_EQ(aligned[0].at, at_s(970));
  EXPECT_EQ(aligned[1].at, at_s(1000));
  EXPECT_NEAR(*aligned[1].requests_per_s, 5.0 / 3.0, 1e-12);
  EXPECT_NEAR(*aligned[1].input_tokens, (500.0 + 4 * 100.0) / 5.0, 1e-12);
  EXPECT_NEAR(*aligned[1].output_tokens, (10.0 + 4 * 30.0) / 5.0, 1e-12);
}

TEST(AlignedHistory, LongerSamplesLeaveHoles) {
  const std::vector<TrafficSample> history = {{at_s(60), 1.0, {}, {}}, {at_s(120), 2.0, {}, {}}};
  const auto aligned = aligned_history(history, seconds{30}, core::kStart);
  ASSERT_EQ(aligned.size(), 2U);
  EXPECT_EQ(aligned[0].at, at_s(-60));
}

TEST(AlignedHistory, LeavesOutWhatCannotBe) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<TrafficSample> history = {
      {core::Instant::min(), 9.0, {}, {}}, {at_s(30), 1.0, nan, -5.0}, {at_s(30), 9.0, {}, {}},  // Duplicate timestamp.
      {core::Instant::max(), 9.0, {}, {}}, {at_s(25), 9.0, {}, {}},                              // Earlier timestamp.
      {at_s(60), nan, 1e300, 7.0}};
  const auto aligned = aligned_history(history, seconds{30}, core::kStart);
  ASSERT_EQ(aligned.size(), 2U);
  EXPECT_EQ(aligned[0].requests_per_s, 1.0);
  EXPECT_FALSE(aligned[0].input_tokens);
  EXPECT_FALSE(aligned[0].output_tokens);
  EXPECT_FALSE(aligned[1].requests_per_s);
  EXPECT_FALSE(aligned[1].input_tokens);
  EXPECT_EQ(aligned[1].output_tokens, 7.0);
  EXPECT_TRUE(aligned_history({}, seconds{30}, core::kStart).empty());
  const std::vector<TrafficSample> ancient = {{core::Instant::min(), 1.0, {}, {}}};
  EXPECT_TRUE(aligned_history(ancient, seconds{30}, core::kStart).empty());
}

TEST(AlignedHistory, IsCutToItsLatestPart) {
  const std::vector<TrafficSample> history = {{at_s(0), 1.0, {}, {}}, {core::kStart + kHistoryMax, 2.0, {}, {}}};
  EXPECT_EQ(aligned_history(history, seconds{30}, core::kStart).size(), 1U);
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
  // 18 intervals give one outcome every 4 intervals from the 18th on; the horizon of 240 s has none before the 24th.
  EXPECT_GT(forecaster.forecast(seconds{180}).requests_per_s->outcomes, 0U);
}

}  // namespace
}  // namespace penstock::forecast
