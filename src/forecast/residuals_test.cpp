#include "forecast/residuals.h"

#include <gtest/gtest.h>

#include "core/random.h"
#include "forecast/history.h"

namespace penstock::forecast {
namespace {

TEST(Residuals, TheMedianOfThreeIsTheMiddleOne) {
  Residuals residuals;
  for (const double residual : {5.0, -1.0, 2.0}) residuals.add(residual);
  EXPECT_NEAR((Distribution{0.0, residuals.quantiles()}.quantile(0.5)), 2.0, 0.01);
}

TEST(Residuals, TheOuterQuantilesOfFewAreTheExtremes) {
  Residuals residuals;
  for (const double residual : {5.0, -1.0, 2.0}) residuals.add(residual);
  EXPECT_EQ(residuals.quantiles().front(), -1.0);
  EXPECT_EQ(residuals.quantiles().back(), 5.0);
}

TEST(Residuals, QuantilesOfManyAreThoseOfTheirDistribution) {
  Residuals residuals;
  core::RandomStream random(7);
  for (int i = 0; i < 2000; ++i) residuals.add(random.uniform());
  const Quantiles quantiles = residuals.quantiles();
  for (std::size_t i = 0; i < quantiles.size(); ++i) EXPECT_NEAR(quantiles[i], kProbabilities[i], 0.05);
}

TEST(Residuals, ForgetsTheOldestAndKeepsItsSize) {
  Residuals residuals;
  for (std::size_t i = 0; i < Residuals::kCapacity; ++i) residuals.add(100.0);
  for (std::size_t i = 0; i < Residuals::kCapacity; ++i) residuals.add(static_cast<double>(i % 3));
  EXPECT_EQ(residuals.count(), Residuals::kCapacity);
  EXPECT_EQ(residuals.quantiles().back(), 2.0);
}

TEST(Residuals, NewErrorsWeighMoreThanOldOnes) {
  Residuals residuals;
  for (int i = 0; i < 256; ++i) residuals.add(0.0);
  for (int i = 0; i < 200; ++i) residuals.add(10.0);
  EXPECT_EQ((Distribution{0.0, residuals.quantiles()}.quantile(0.5)), 10.0);
}

TEST(Residuals, AreSavedOnceAndRestoredAsTheyWere) {
  for (const std::size_t count : {std::size_t{3}, Residuals::kCapacity + 100}) {
    Residuals residuals, restored;
    core::RandomStream random(7);
    for (std::size_t i = 0; i < count; ++i) residuals.add(random.uniform());
    core::StateArchive saved;
    residuals.archive(saved);
    EXPECT_LT(saved.text().size(), 24 * std::min(count, Residuals::kCapacity) + 24);
    core::StateArchive read{saved.text()};
    restored.archive(read);
    ASSERT_TRUE(read.finish());
    for (int i = 0; i < 200; ++i) {
      EXPECT_EQ(restored.quantiles(), residuals.quantiles());
      const double next = random.uniform();
      for (Residuals* each : {&residuals, &restored}) each->add(next);
    }
  }
}

TEST(ResidualScale, IsReversibleAndNeverBelowZero) {
  for (const double value : {0.0, 0.3, 7.0, 4e5}) EXPECT_NEAR(from_scale(to_scale(value)), value, 1e-9 * (1.0 + value));
  EXPECT_EQ(from_scale(-3.0), 0.0);
}

TEST(Distribution, InterpolatesBetweenTheKeptQuantilesAndStopsAtTheOuterOnes) {
  Distribution distribution;
  for (std::size_t i = 0; i < kProbabilities.size(); ++i) distribution.quantiles[i] = 100.0 * kProbabilities[i];
  EXPECT_NEAR(distribution.quantile(0.5), 50.0, 1e-9);
  EXPECT_NEAR(distribution.quantile(0.85), 85.0, 1e-9);
  EXPECT_EQ(distribution.quantile(0.0), 1.0);
  EXPECT_EQ(distribution.quantile(1.0), 99.0);
}

TEST(PinballLoss, WeighsBothSidesByTheQuantile) {
  EXPECT_NEAR(pinball_loss(0.9, 10.0, 12.0), 1.8, 1e-12);
  EXPECT_NEAR(pinball_loss(0.9, 10.0, 8.0), 0.2, 1e-12);
}

TEST(Outcome, IsTheMeanAndTheHighestWindow) {
  const double values[] = {1.0, 5.0, 3.0, 7.0};
  EXPECT_EQ(outcome_of(values, 4, 1).level, 4.0);
  EXPECT_EQ(outcome_of(values, 4, 1).peak, 7.0);
  EXPECT_EQ(outcome_of(values, 4, 2).peak, 5.0);
  EXPECT_EQ(outcome_of(values, 4, 9).peak, 4.0);
}

TEST(History, MissingStepsCountNeitherInTheMeanNorInThePeak) {
  History history(4);
  history.add(0, 2.0);
  history.add(1, 4.0);
  history.add(3, 9.0);
  EXPECT_EQ(history.outcome(-1, 3, 1)->level, 5.0);
  EXPECT_EQ(history.outcome(-1, 3, 1)->peak, 9.0);
  EXPECT_EQ(history.outcome(-1, 3, 2)->peak, 9.0);
}

TEST(History, HasNoOutcomeWhereLessThanHalfWasSeen) {
  History history(4);
  history.add(0, 2.0);
  EXPECT_FALSE(history.outcome(-1, 3, 1));
  history.add(7, 2.0);
  EXPECT_FALSE(history.outcome(3, 7, 1));
}

}  // namespace
}  // namespace penstock::forecast
