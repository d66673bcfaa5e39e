#include "forecast/auto_predictor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "forecast/forecast_testing.h"

namespace penstock::forecast {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr double kPi = std::numbers::pi;

PredictorOptions half_minutes() {
  PredictorOptions options = options_of(30.0, {minutes{2}, minutes{6}});
  options.season = hours{4};
  options.long_season = {};
  return options;
}

void expect_near_the_best(const char* series, const std::vector<double>& values) {
  double best = INFINITY;
  for (const std::string_view name : predictor_names())
    if (name != "auto") best = std::min(best, score(name, half_minutes(), minutes{2}, values, 960).error);
  const double chosen = score("auto", half_minutes(), minutes{2}, values, 960).error;
  EXPECT_LE(chosen, 1.1 * best + 1e-3) << series;
}

TEST(AutoPredictor, IsAlmostAsGoodAsTheBestOnNoiseAroundALevel) {
  expect_near_the_best("constant", bursty_rates([](double) { return 5.0; }, 1.0, 30.0, 3000, 21));
}

TEST(AutoPredictor, IsAlmostAsGoodAsTheBestOnATrend) {
  expect_near_the_best("trend", bursty_rates([](double at) { return 2.0 + at / 2000.0; }, 1.0, 30.0, 3000, 22));
}

TEST(AutoPredictor, IsAlmostAsGoodAsTheBestOnASeason) {
  const auto rate = [](double at) { return 20.0 + 15.0 * std::sin(2.0 * kPi * at / 14'400.0); };
  expect_near_the_best("season", bursty_rates(rate, 1.0, 30.0, 3000, 23));
}

TEST(AutoPredictor, IsAlmostAsGoodAsTheBestOnSteps) {
  const auto rate = [](double at) { return static_cast<int>(at / 9000.0) % 2 == 0 ? 4.0 : 14.0; };
  expect_near_the_best("steps", bursty_rates(rate, 1.0, 30.0, 3000, 24));
}

TEST(AutoPredictor, IsAlmostAsGoodAsTheBestOnBursts) {
  expect_near_the_best("bursts", bursty_rates([](double) { return 5.0; }, 10.0, 30.0, 3000, 25));
}

TEST(AutoPredictor, ChangesItsModelAfterARegimeChange) {
  const auto predictor = predictor_of("auto", half_minutes());
  // A steep line, followed by noise around a level, where a recent trend has no predictive value.
  core::RandomStream random(26);
  double value = 0.0;
  for (int i = 1; i <= 600; ++i) predictor->observe({at_s(30.0 * i), value = 1.0 * i});
  EXPECT_NE(predictor->chosen(minutes{2}), "constant");
  EXPECT_NEAR(predictor->forecast(minutes{2})->level.mean, value + 2.5, 0.5);
  double error = 0.0;
  for (int i = 601; i <= 900; ++i) {
    predictor->observe({at_s(30.0 * i), 300.0 + 20.0 * random.normal()});
    if (i > 840) error += std::abs(predictor->forecast(minutes{2})->level.mean - 300.0) / 60.0;
  }
  EXPECT_LT(error, 10.0);
}

TEST(AutoPredictor, ForecastsFromTheFirstSample) {
  const auto predictor = predictor_of("auto", half_minutes());
  EXPECT_TRUE(predictor->observe({at_s(30), 3.0}));
  EXPECT_TRUE(predictor->ready());
  EXPECT_EQ(predictor->chosen(minutes{2}), "constant");
  EXPECT_EQ(predictor->forecast(minutes{2})->level.mean, 3.0);
  EXPECT_EQ(predictor->forecast(minutes{2})->outcomes, 0U);
}

TEST(AutoPredictor, CanChooseAnotherAtEachHorizon) {
  const auto predictor = predictor_of("auto", half_minutes());
  feed(*predictor, seconds{30},
       bursty_rates([](double at) { return 20.0 + 15.0 * std::sin(2.0 * kPi * at / 7200.0); }, 2.0, 30.0, 2000, 27));
  for (const auto horizon : {minutes{1}, minutes{2}, minutes{6}, minutes{60}}) {
    const auto names = predictor_names();
    EXPECT_NE(std::find(names.begin(), names.end(), predictor->chosen(horizon)), names.end());
    EXPECT_NE(predictor->chosen(horizon), "auto");
  }
}

}  // namespace
}  // namespace penstock::forecast
