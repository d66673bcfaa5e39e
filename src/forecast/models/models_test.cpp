// Each extrapolation model on series that are short enough to compute by hand or have a known continuation.
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "core/random.h"
#include "forecast/forecast_testing.h"
#include "forecast/least_squares.h"
#include "forecast/models/arima.h"
#include "forecast/models/constant.h"
#include "forecast/models/decomposition.h"
#include "forecast/models/kalman.h"
#include "forecast/models/linear.h"
#include "forecast/models/seasonal.h"

namespace penstock::forecast {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

void update(Model& model, core::Duration interval, std::int64_t step, double value) {
  model.update({step, core::kStart + interval * (step + 1), value, false});
}

std::vector<double> path_of(const Model& model, std::size_t steps) {
  std::vector<double> path(steps);
  model.expect(path);
  return path;
}

PredictorOptions every(core::Duration interval) {
  PredictorOptions options;
  options.interval = interval;
  return options;
}

TEST(ConstantModel, ExpectsTheMeanOfItsWindow) {
  ConstantModel model(every(seconds{20}));  // 60 s contain three values.
  std::int64_t step = 0;
  for (const double value : {100.0, 1.0, 2.0, 6.0}) update(model, seconds{20}, step++, value);
  EXPECT_EQ(path_of(model, 2), (std::vector<double>{3.0, 3.0}));
}

TEST(ConstantModel, IsTheLastValueWhereTheIntervalIsTheWindow) {
  ConstantModel model(every(seconds{60}));
  update(model, seconds{60}, 0, 4.0);
  update(model, seconds{60}, 1, 9.0);
  EXPECT_EQ(path_of(model, 1).front(), 9.0);
}

TEST(ConstantModel, DoesNotCountMissingIntervalsAsZero) {
  ConstantModel model(every(seconds{20}));
  update(model, seconds{20}, 0, 8.0);
  update(model, seconds{20}, 2, 4.0);
  EXPECT_EQ(path_of(model, 1).front(), 6.0);
}

TEST(LinearModel, FitsTheLineOfLeastSquares) {
  LinearModel model(every(seconds{60}));
  // t = 0, 1, 2 and y = 1, 2, 6: slope 5 / 2, mean 3 at t = 1.
  for (std::int64_t step = 0; step < 3; ++step) update(model, seconds{60}, step, std::array{1.0, 2.0, 6.0}[step]);
  ASSERT_TRUE(model.ready());
  EXPECT_NEAR(path_of(model, 2)[0], 8.0, 1e-12);
  EXPECT_NEAR(path_of(model, 2)[1], 10.5, 1e-12);
}

TEST(LinearModel, ContinuesALineOverAGap) {
  LinearModel model(every(seconds{60}));
  for (const std::int64_t step : {0, 1, 2, 6, 7})
    update(model, seconds{60}, step, 10.0 + 2.0 * static_cast<double>(step));
  EXPECT_NEAR(path_of(model, 1).front(), 26.0, 1e-9);
}

TEST(KalmanModel, IsReadyAtTheFifthPoint) {
  KalmanModel model(every(minutes{1}));
  for (std::int64_t step = 0; step < 4; ++step) update(model, minutes{1}, step, 1.0);
  EXPECT_FALSE(model.ready());
  update(model, minutes{1}, 4, 1.0);
  EXPECT_TRUE(model.ready());
}

TEST(KalmanModel, FirstCorrectionByHand) {
  KalmanModel model(every(minutes{1}));
  update(model, minutes{1}, 0, 10.0);
  update(model, minutes{1}, 1, 20.0);
  // P0 = diag(10, 1.1). Predicted: level variance 10 + 1.1 + 1 = 12.1, covariance 1.1; innovation variance 22.1.
  EXPECT_NEAR(model.level(), 10.0 + 10.0 * 12.1 / 22.1, 1e-9);
  EXPECT_NEAR(model.trend(), 10.0 * 1.1 / 22.1, 1e-9);
}

TEST(KalmanModel, FindsATrendAndContinuesIt) {
  KalmanModel model(every(minutes{1}));
  for (std::int64_t step = 0; step < 200; ++step)
    update(model, minutes{1}, step, 5.0 + 0.5 * static_cast<double>(step));
  EXPECT_NEAR(model.trend(), 0.5, 1e-3);
  EXPECT_NEAR(path_of(model, 4)[3], 5.0 + 0.5 * 203.0, 0.05);
}

TEST(KalmanModel, FiltersOverTheSameTimeAtAFinerInterval) {
  KalmanModel coarse(every(minutes{1}));
  KalmanModel fine(every(seconds{5}));
  for (std::int64_t step = 0; step < 30; ++step) update(coarse, minutes{1}, step, step < 20 ? 1.0 : 2.0);
  for (std::int64_t step = 0; step < 360; ++step) update(fine, seconds{5}, step, step < 240 ? 1.0 : 2.0);
  EXPECT_NEAR(coarse.level(), fine.level(), 0.03);
}

TEST(SeasonalModel, RepeatsASeasonByHand) {
  PredictorOptions options = every(seconds{60});
  options.season = minutes{4};
  options.long_season = {};
  SeasonalModel model(options);
  const std::array season = {10.0, 20.0, 30.0, 20.0};
  for (std::int64_t step = 0; step < 40; ++step) update(model, seconds{60}, step, season[step % 4]);
  const auto path = path_of(model, 4);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(path[i], season[i], 0.5) << i;
}

TEST(SeasonalModel, ScalesTheSeasonWithTheLevel) {
  PredictorOptions options = every(seconds{60});
  options.season = hours{1};
  options.long_season = {};
  SeasonalModel model(options);
  const auto season = [](std::int64_t step) {
    return 10.0 + 5.0 * std::sin(2.0 * std::numbers::pi * static_cast<double>(step) / 60.0);
  };
  for (std::int64_t step = 0; step < 240; ++step)
    update(model, seconds{60}, step, season(step) * (step < 180 ? 1.0 : 2.0));
  const auto path = path_of(model, 40);
  // The minutes after the step were partly attributed to the season.
  for (std::int64_t i = 10; i < 40; ++i) EXPECT_NEAR(path[i], 2.0 * season(240 + i), 0.12 * 2.0 * season(240 + i)) << i;
}

TEST(SeasonalModel, LearnsThatWeekendsAreQuiet) {
  PredictorOptions options = every(minutes{30});
  SeasonalModel model(options);
  const auto value = [](std::int64_t step) { return step / 48 % 7 < 5 ? 100.0 : 20.0; };
  // Three weeks of data; in the fourth week, the fourth day at 23:30 precedes a working day and the fifth a weekend.
  std::int64_t step = 0;
  for (; step < 48 * (21 + 5); ++step) {
    if (step == 48 * (21 + 4)) {
      EXPECT_NEAR(path_of(model, 8)[7], 100.0, 20.0);
    }
    update(model, minutes{30}, step, value(step));
  }
  EXPECT_NEAR(path_of(model, 8)[7], 20.0, 10.0);
}

TEST(LeastSquaresFit, SolvesByHandAndRefusesDependentColumns) {
  LeastSquares squares(2);
  squares.add(std::array{1.0, 0.0}, 1.0);
  squares.add(std::array{1.0, 1.0}, 3.0);
  squares.add(std::array{1.0, 2.0}, 5.0);
  const auto line = squares.solve();
  ASSERT_TRUE(line.has_value());
  EXPECT_NEAR((*line)[0], 1.0, 1e-9);
  EXPECT_NEAR((*line)[1], 2.0, 1e-9);

  LeastSquares dependent(2);
  for (int i = 0; i < 3; ++i) dependent.add(std::array{1.0, 2.0}, 1.0);
  EXPECT_FALSE(dependent.solve().has_value());
}

TEST(ArmaFitting, RecoversAnAutoregression) {
  core::RandomStream random(3);
  std::vector<double> values{10.0};
  for (int i = 1; i < 500; ++i) values.push_back(3.0 + 0.7 * values.back() + random.normal());
  const auto fit = fit_arma(values, estimate_innovations(values), 1, 0);
  ASSERT_TRUE(fit.has_value());
  EXPECT_NEAR(fit->phi[0], 0.7, 0.08);
  EXPECT_NEAR(fit->constant, 3.0, 0.8);
  EXPECT_NEAR(fit->variance, 1.0, 0.15);
}

TEST(ArmaFitting, RecoversAMovingAverage) {
  core::RandomStream random(4);
  std::vector<double> values;
  double before = 0.0;
  for (int i = 0; i < 500; ++i) {
    const double innovation = random.normal();
    values.push_back(5.0 + innovation + 0.6 * before);
    before = innovation;
  }
  const auto fit = fit_arma(values, estimate_innovations(values), 0, 1);
  ASSERT_TRUE(fit.has_value());
  EXPECT_NEAR(fit->theta[0], 0.6, 0.1);
}

TEST(ArmaFitting, TellsStablePolynomialsFromOthers) {
  EXPECT_TRUE(is_stable({}));
  EXPECT_TRUE(is_stable({0.5}));
  EXPECT_TRUE(is_stable({1.2, -0.5}));
  EXPECT_FALSE(is_stable({1.0}));
  EXPECT_FALSE(is_stable({0.5, 0.6}));
  EXPECT_FALSE(is_stable({0.0, -1.1}));
}

TEST(ArimaModel, ReturnsToTheMeanOfAnAutoregression) {
  ArimaModel model(every(minutes{1}));
  core::RandomStream random(5);
  double value = 10.0;
  for (std::int64_t step = 0; step < 512; ++step) {
    value = 3.0 + 0.7 * value + random.normal();
    update(model, minutes{1}, step, value);
  }
  ASSERT_EQ(model.differences(), 0);
  const auto path = path_of(model, 60);
  EXPECT_NEAR(path.back(), 10.0, 1.0);
  EXPECT_NEAR(path[0], 3.0 + 0.7 * value, 0.8);
}

TEST(ArimaModel, FollowsATrend) {
  ArimaModel model(every(minutes{1}));
  core::RandomStream random(6);
  for (std::int64_t step = 0; step < 304; ++step)
    update(model, minutes{1}, step, 50.0 + static_cast<double>(step) + 0.1 * random.normal());
  EXPECT_NEAR(path_of(model, 10)[9], 50.0 + 313.0, 1.0);
}

TEST(ArimaModel, ExpectsAFlatSeriesToStayFlat) {
  ArimaModel model(every(minutes{1}));
  for (std::int64_t step = 0; step < 100; ++step) update(model, minutes{1}, step, 4.0);
  ASSERT_TRUE(model.ready());
  EXPECT_NEAR(path_of(model, 5)[4], 4.0, 1e-6);
}

TEST(ArimaModel, AveragesSecondsToMinutesAndContinuesTheirLevel) {
  ArimaModel model(every(seconds{5}));
  for (std::int64_t step = 0; step < 12 * 40; ++step) update(model, seconds{5}, step, step % 2 == 0 ? 0.0 : 8.0);
  ASSERT_TRUE(model.ready());
  EXPECT_NEAR(path_of(model, 24)[23], 4.0, 1e-6);
}

TEST(ArimaModel, BeginsAnewAfterALongGap) {
  ArimaModel model(every(minutes{1}));
  core::RandomStream random(8);
  for (std::int64_t step = 0; step < 200; ++step) update(model, minutes{1}, step, 10.0 + random.normal());
  for (std::int64_t step = 400; step < 440; ++step) update(model, minutes{1}, step, 90.0 + random.normal());
  EXPECT_NEAR(path_of(model, 2)[1], 90.0, 5.0);
}

TEST(DecompositionModel, ContinuesALine) {
  DecompositionModel model(every(minutes{1}));
  for (std::int64_t step = 0; step < 300; ++step)
    update(model, minutes{1}, step, 20.0 + 0.1 * static_cast<double>(step));
  ASSERT_TRUE(model.ready());
  EXPECT_NEAR(path_of(model, 6)[5], 20.0 + 30.5, 0.3);
}

TEST(DecompositionModel, FindsADailySeason) {
  DecompositionModel model(every(minutes{5}));
  const auto value = [](std::int64_t step) {
    return 50.0 + 30.0 * std::sin(2.0 * std::numbers::pi * static_cast<double>(step) / 288.0);
  };
  for (std::int64_t step = 0; step < 288 * 3; ++step) update(model, minutes{5}, step, value(step));
  const auto path = path_of(model, 72);  // Six hours ahead: from the middle to the top.
  for (const std::int64_t k : {11, 35, 71}) EXPECT_NEAR(path[k], value(288 * 3 + k), 2.0) << k;
}

TEST(DecompositionModel, StartsFromTheLastMinutes) {
  DecompositionModel model(every(minutes{1}));
  for (std::int64_t step = 0; step < 600; ++step) update(model, minutes{1}, step, step < 585 ? 10.0 : 30.0);
  EXPECT_GT(path_of(model, 1).front(), 25.0);
}

TEST(DecompositionModel, KeepsItsRowsWithinTheLimitOverMonths) {
  DecompositionModel model(every(minutes{5}));
  for (std::int64_t step = 0; step < 288 * 70; step += 1) update(model, minutes{5}, step, 10.0);
  EXPECT_LE(model.rows(), DecompositionModel::kRowsMax);
  EXPECT_NEAR(path_of(model, 1).front(), 10.0, 0.01);
}

}  // namespace
}  // namespace penstock::forecast
