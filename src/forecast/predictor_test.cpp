#include "forecast/predictor.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numbers>

#include "forecast/forecast_testing.h"

namespace penstock::forecast {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

PredictorOptions fast() { return options_of(10.0, {seconds{60}, seconds{120}}); }

TEST(Predictor, EveryNameIsMadeAndNamesItself) {
  for (const std::string_view name : predictor_names()) EXPECT_EQ(predictor_of(name, fast())->name(), name);
  EXPECT_EQ(predictor_names().size(), 7U);
}

TEST(Predictor, AnUnknownNameIsAnErrorThatListsTheKnown) {
  const auto predictor = make_predictor("prophet");
  ASSERT_FALSE(predictor);
  EXPECT_EQ(
      predictor.error().message(),
      "predictor: unknown name \"prophet\"; one of constant, linear, seasonal, arima, kalman, decomposition, auto");
}

TEST(Predictor, WrongOptionsAreErrorsThatNameTheOption) {
  struct Row {
    const char* where;
    std::function<void(PredictorOptions&)> spoil;
  };
  const std::vector<Row> rows = {
      {"interval", [](auto& o) { o.interval = {}; }},
      {"horizons", [](auto& o) { o.horizons.clear(); }},
      {"horizons[1]",
       [](auto& o) {
         o.horizons = {seconds{60}, seconds{60}};
       }},
      {"horizons[0]", [](auto& o) { o.horizons = {hours{1000}}; }},
      {"peak_window", [](auto& o) { o.peak_window = seconds{-1}; }},
      {"gap_max", [](auto& o) { o.gap_max = seconds{1}; }},
      {"level_window", [](auto& o) { o.level_window = {}; }},
      {"trend_window", [](auto& o) { o.trend_window = hours{10'000}; }},
      {"season", [](auto& o) { o.season = seconds{10}; }},
      {"long_season", [](auto& o) { o.long_season = hours{25}; }},
      {"memory", [](auto& o) { o.memory = {}; }},
      {"q_level", [](auto& o) { o.q_level = std::numeric_limits<double>::quiet_NaN(); }},
      {"q_trend", [](auto& o) { o.q_trend = -1.0; }},
      {"r", [](auto& o) { o.r = 0.0; }},
  };
  for (const Row& row : rows) {
    PredictorOptions options;
    row.spoil(options);
    const auto predictor = make_predictor("auto", options);
    ASSERT_FALSE(predictor) << row.where;
    EXPECT_EQ(predictor.error().where, row.where);
  }
}

TEST(Predictor, HasNoForecastBeforeItHasSeenAnything) {
  for (const std::string_view name : predictor_names()) {
    const auto predictor = predictor_of(name, fast());
    EXPECT_FALSE(predictor->ready());
    EXPECT_FALSE(predictor->forecast(seconds{60})) << name;
  }
}

TEST(Predictor, AHorizonIsRoundedUpToWholeIntervals) {
  const auto predictor = predictor_of("constant", fast());
  feed(*predictor, seconds{10}, {4.0, 4.0});
  EXPECT_EQ(predictor->forecast(seconds{61})->horizon, seconds{70});
  EXPECT_EQ(predictor->forecast(seconds{0})->horizon, seconds{10});
  EXPECT_EQ(predictor->forecast(seconds{60})->from, at_s(20));
}

TEST(Predictor, AFlatSeriesIsForecastAsItself) {
  for (const std::string_view name : predictor_names()) {
    const auto predictor = predictor_of(name, fast());
    feed(*predictor, seconds{10}, std::vector<double>(600, 5.0));
    const auto forecast = predictor->forecast(seconds{120});
    ASSERT_TRUE(forecast) << name;
    EXPECT_NEAR(forecast->level.mean, 5.0, 0.01) << name;
    EXPECT_NEAR(forecast->level.quantile(0.9), 5.0, 0.3) << name;
    EXPECT_NEAR(forecast->peak.quantile(0.5), 5.0, 0.01) << name;
    EXPECT_GT(forecast->outcomes, kFewOutcomes) << name;
  }
}

TEST(Predictor, AKnownTrendIsContinuedByThoseThatKnowTrends) {
  std::vector<double> values;
  for (int i = 0; i < 1200; ++i) values.push_back(10.0 + 0.02 * i);
  // Mean of the next twelve values.
  const double level = 10.0 + 0.02 * (1199 + 6.5);
  for (const std::string_view name : {"linear", "arima", "kalman", "decomposition", "auto"}) {
    const auto predictor = predictor_of(name, fast());
    feed(*predictor, seconds{10}, values);
    EXPECT_NEAR(predictor->forecast(seconds{120})->level.mean, level, 0.15) << name;
  }
}

TEST(Predictor, TheMedianCorrectsALagThatTheMeanHas) {
  std::vector<double> values;
  for (int i = 0; i < 1200; ++i) values.push_back(10.0 + 0.02 * i);
  const auto predictor = predictor_of("constant", fast());
  feed(*predictor, seconds{10}, values);
  const auto forecast = predictor->forecast(seconds{120});
  const double level = 10.0 + 0.02 * (1199 + 6.5);
  EXPECT_LT(forecast->level.mean, level - 0.1);
  EXPECT_NEAR(forecast->level.quantile(0.5), level, 0.05);
}

TEST(Predictor, QuantilesAscendAndAreNeverNegative) {
  const std::vector<double> values = bursty_rates([](double) { return 0.2; }, 8.0, 10.0, 2000, 11);
  for (const std::string_view name : predictor_names()) {
    const auto predictor = predictor_of(name, fast());
    for (std::size_t i = 0; i < values.size(); ++i) {
      predictor->observe({at_s(10.0 * static_cast<double>(i + 1)), values[i]});
      if (i % 50 != 49) continue;
      const auto forecast = predictor->forecast(seconds{90});
      if (!forecast) continue;
      for (const Distribution* each : {&forecast->level, &forecast->peak}) {
        EXPECT_GE(each->mean, 0.0) << name;
        double before = 0.0;
        for (const double quantile : each->quantiles) {
          EXPECT_GE(quantile, before) << name;
          before = quantile;
        }
      }
    }
  }
}

TEST(Predictor, ThePeakIsNotBelowTheLevel) {
  const std::vector<double> values = bursty_rates([](double) { return 4.0; }, 3.0, 10.0, 1500, 12);
  for (const std::string_view name : predictor_names()) {
    const auto predictor = predictor_of(name, fast());
    feed(*predictor, seconds{10}, values);
    const auto forecast = predictor->forecast(seconds{120});
    EXPECT_GE(forecast->peak.mean, forecast->level.mean) << name;
    EXPECT_GT(forecast->peak.quantile(0.5), 1.1 * forecast->level.quantile(0.5)) << name;
  }
}

// Share of outcomes below p90 and p50 for bursty service traffic with a daily cycle.
TEST(Predictor, QuantilesAreCalibratedOnBurstyTraffic) {
  const auto rate = [](double at) { return 5.0 + 3.0 * std::sin(2.0 * std::numbers::pi * at / 14'400.0); };
  for (const double gap_cv : {1.0, 4.0, 10.0}) {
    const std::vector<double> values = bursty_rates(rate, gap_cv, 10.0, 6000, 13);
    for (const std::string_view name : predictor_names()) {
      const AccuracyReport report = score(name, fast(), seconds{120}, values, 500);
      EXPECT_GT(report.below_p90, 0.86) << name << " at CV " << gap_cv;
      EXPECT_LT(report.below_p90, 0.96) << name << " at CV " << gap_cv;
      EXPECT_GT(report.below_p50, 0.40) << name << " at CV " << gap_cv;
      EXPECT_LT(report.below_p50, 0.60) << name << " at CV " << gap_cv;
      EXPECT_GT(report.peak_below_p90, 0.86) << name << " at CV " << gap_cv;
    }
  }
}

TEST(Predictor, AHorizonBetweenTwoIsAsWideAsThoseAround) {
  const auto predictor = predictor_of("constant", fast());
  feed(*predictor, seconds{10}, bursty_rates([](double) { return 4.0; }, 3.0, 10.0, 3000, 14));
  const auto width = [&](seconds horizon) {
    const auto forecast = predictor->forecast(horizon);
    return forecast->level.quantile(0.9) - forecast->level.quantile(0.1);
  };
  const double low = std::min(width(seconds{60}), width(seconds{120}));
  const double high = std::max(width(seconds{60}), width(seconds{120}));
  EXPECT_GE(width(seconds{90}), 0.95 * low);
  EXPECT_LE(width(seconds{90}), 1.05 * high);
}

TEST(Predictor, InvalidValuesHaveNoEffect) {
  const std::vector<double> values = bursty_rates([](double) { return 4.0; }, 3.0, 10.0, 400, 15);
  for (const std::string_view name : predictor_names()) {
    const auto clean = predictor_of(name, fast());
    const auto dirty = predictor_of(name, fast());
    for (std::size_t i = 0; i < values.size(); ++i) {
      const core::Instant at = at_s(10.0 * static_cast<double>(i + 1));
      clean->observe({at, values[i]});
      EXPECT_FALSE(dirty->observe({at, std::numeric_limits<double>::quiet_NaN()}));
      EXPECT_FALSE(dirty->observe({at, std::numeric_limits<double>::infinity()}));
      dirty->observe({at, values[i]});
      EXPECT_FALSE(dirty->observe({at - seconds{30}, 7.0}) && i > 3);
    }
    EXPECT_EQ(dirty->rejections().not_finite, 2 * values.size()) << name;
    EXPECT_EQ(dirty->rejections().out_of_order, values.size()) << name;
    EXPECT_EQ(clean->forecast(seconds{120})->level.quantiles, dirty->forecast(seconds{120})->level.quantiles) << name;
  }
}

TEST(Predictor, AGapIsNeitherZeroNorTheEnd) {
  for (const std::string_view name : predictor_names()) {
    const auto predictor = predictor_of(name, fast());
    for (int i = 1; i <= 900; ++i)
      if (i % 100 < 80) predictor->observe({at_s(10.0 * i), 6.0});
    for (int i = 1200; i < 1230; ++i) predictor->observe({at_s(10.0 * i), 6.0});
    const auto forecast = predictor->forecast(seconds{120});
    ASSERT_TRUE(forecast) << name;
    EXPECT_NEAR(forecast->level.mean, 6.0, 0.3) << name;
    EXPECT_GT(forecast->level.quantile(0.1), 5.0) << name;
    EXPECT_EQ(predictor->rejections().total(), 0U) << name;
  }
}

TEST(Predictor, AClockThatJumpsBackIsHandled) {
  for (const std::string_view name : predictor_names()) {
    const auto predictor = predictor_of(name, fast());
    feed(*predictor, seconds{10}, std::vector<double>(600, 6.0));
    for (int i = 0; i < 60; ++i) predictor->observe({at_s(-50'000.0 + 10.0 * i), 6.0});
    EXPECT_NEAR(predictor->forecast(seconds{120})->level.mean, 6.0, 0.5) << name;
    EXPECT_EQ(predictor->rejections().out_of_order, 6U) << name;
  }
}

TEST(Predictor, EqualSamplesGiveEqualForecasts) {
  const std::vector<double> values = bursty_rates([](double) { return 4.0; }, 6.0, 10.0, 1000, 16);
  for (const std::string_view name : predictor_names()) {
    const auto one = predictor_of(name, fast());
    const auto two = predictor_of(name, fast());
    feed(*one, seconds{10}, values);
    for (std::size_t i = 0; i < values.size(); ++i) {
      two->observe({at_s(10.0 * static_cast<double>(i + 1)), values[i]});
      (void)two->forecast(seconds{200});  // A forecast does not change the state.
    }
    EXPECT_EQ(one->forecast(seconds{120})->level.quantiles, two->forecast(seconds{120})->level.quantiles) << name;
    EXPECT_EQ(one->forecast(seconds{120})->peak.mean, two->forecast(seconds{120})->peak.mean) << name;
  }
}

TEST(Predictor, ExtremeValuesStayFinite) {
  for (const std::string_view name : predictor_names()) {
    const auto predictor = predictor_of(name, fast());
    for (int i = 1; i <= 500; ++i) predictor->observe({at_s(10.0 * i), i % 37 == 0 ? 1e12 : i % 5 == 0 ? 0.0 : 1e-9});
    const auto forecast = predictor->forecast(seconds{120});
    ASSERT_TRUE(forecast) << name;
    EXPECT_TRUE(std::isfinite(forecast->level.mean)) << name;
    EXPECT_TRUE(std::isfinite(forecast->peak.quantile(0.99))) << name;
  }
}

}  // namespace
}  // namespace penstock::forecast
