#include "planner/penstock/load_curve.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/random.h"

namespace penstock::planner {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinite = std::numeric_limits<double>::infinity();

TEST(LoadCurve, MissesNothingBeforeAnyTrial) {
  LoadCurve curve;
  curve.age();
  EXPECT_FALSE(curve.known());
  for (const double load : {0.0, 1.0, 1e12}) EXPECT_DOUBLE_EQ(curve.missed_share(load), 0.0);
}

TEST(LoadCurve, FollowsTheTrials) {
  LoadCurve curve;
  curve.add(50.0, 1000, 0);
  curve.add(100.0, 1000, 100);
  curve.add(150.0, 1000, 900);
  curve.age();
  ASSERT_TRUE(curve.known());
  EXPECT_DOUBLE_EQ(curve.missed_share(0.0), 0.0);
  EXPECT_DOUBLE_EQ(curve.missed_share(48.0), 0.0);
  // Loads are rounded to 5 %.
  EXPECT_NEAR(curve.missed_share(100.0), 0.1, 0.04);
  EXPECT_NEAR(curve.missed_share(125.0), 0.5, 0.08);
  EXPECT_NEAR(curve.missed_share(150.0), 0.9, 0.06);
  EXPECT_NEAR(curve.capacity(), 150.0, 5.0);
}

TEST(LoadCurve, AllRequestsMissFarAboveTheTrials) {
  LoadCurve curve;
  curve.add(100.0, 1000, 0);
  curve.age();
  EXPECT_DOUBLE_EQ(curve.missed_share(90.0), 0.0);
  EXPECT_GT(curve.missed_share(125.0), 0.3);
  EXPECT_DOUBLE_EQ(curve.missed_share(160.0), 1.0);
  EXPECT_DOUBLE_EQ(curve.missed_share(1e12), 1.0);
  EXPECT_NEAR(curve.capacity(), 150.0, 5.0);
}

TEST(LoadCurve, NeighboursThatDecreaseArePooled) {
  LoadCurve curve;
  curve.add(100.0, 1000, 300);
  curve.add(120.0, 3000, 300);
  curve.add(200.0, 1000, 900);
  curve.age();
  const double pooled = 600.0 / 4000.0;
  EXPECT_DOUBLE_EQ(curve.missed_share(50.0), pooled);
  EXPECT_NEAR(curve.missed_share(110.0), pooled, 1e-12);
  EXPECT_NEAR(curve.missed_share(116.0), pooled, 1e-12);
  EXPECT_GT(curve.missed_share(160.0), pooled);
}

TEST(LoadCurve, OutcomesOfOneLoadAreSummed) {
  LoadCurve curve;
  curve.add(100.0, 900, 0);
  curve.add(100.0, 100, 100);
  curve.age();
  EXPECT_NEAR(curve.missed_share(100.0), 0.1, 0.1);
  EXPECT_DOUBLE_EQ(curve.missed_share(1.0), 0.1);
}

TEST(LoadCurve, EarlierOutcomesCountLess) {
  LoadCurve curve;
  curve.add(100.0, 1000, 1000);
  for (int minute = 0; minute < 600; ++minute) curve.age();  // Ten hours: e^-2 of it is left.
  curve.add(100.0, 1000, 0);
  curve.age();
  EXPECT_NEAR(curve.missed_share(1.0), 0.138 / 1.138, 0.01);
}

TEST(LoadCurve, ForgetsOutcomesOfThePast) {
  LoadCurve curve;
  curve.add(100.0, 20, 10);
  for (int minute = 0; minute < 24 * 60; ++minute) curve.age();
  EXPECT_FALSE(curve.known());
  EXPECT_DOUBLE_EQ(curve.missed_share(100.0), 0.0);
}

TEST(LoadCurve, IgnoresWhatIsNoOutcome) {
  LoadCurve curve;
  for (const double load : {0.0, -1.0, kNan, kInfinite}) curve.add(load, 100, 50);
  for (const double requests : {0.0, -1.0, kNan, kInfinite}) curve.add(100.0, requests, 0);
  curve.add(100.0, 100, kNan);
  curve.age();
  EXPECT_FALSE(curve.known());
}

TEST(LoadCurve, MissesAreBetweenNoneAndAllRequests) {
  LoadCurve curve;
  curve.add(100.0, 100, -50);  // The fleet was better than the best one by chance.
  curve.add(200.0, 100, 300);
  curve.age();
  EXPECT_DOUBLE_EQ(curve.missed_share(50.0), 0.0);
  EXPECT_DOUBLE_EQ(curve.missed_share(1e6), 1.0);
}

TEST(LoadCurve, IncreasesForAnyTrials) {
  core::RandomStream random{16};
  for (int sequence = 0; sequence < 200; ++sequence) {
    LoadCurve curve;
    for (std::uint64_t trial = random.below(200) + 1; trial > 0; --trial) {
      const double requests = random.log_normal(100.0, 2.0);
      curve.add(random.log_normal(1000.0, 2.0), requests, random.uniform(-0.2, 1.2) * requests);
      if (random.below(10) == 0) curve.age();
    }
    curve.age();
    if (!curve.known()) continue;
    double before = 0.0;
    for (double load = 1e-3; load < 1e9; load *= 1.03) {
      const double share = curve.missed_share(load);
      ASSERT_GE(share, before - 1e-12) << load;
      ASSERT_LE(share, 1.0);
      before = share;
    }
    ASSERT_DOUBLE_EQ(before, 1.0);
    ASSERT_GE(curve.missed_share(curve.capacity()), 0.5 - 1e-9);
  }
}

TEST(LoadCurve, ContinuesFromItsArchive) {
  LoadCurve curve, restored;
  for (int i = 1; i < 20; ++i) curve.add(10.0 * i, 500, 20.0 * i);
  curve.age();
  core::StateArchive saved;
  curve.archive(saved);
  core::StateArchive read{saved.text()};
  restored.archive(read);
  ASSERT_TRUE(read.finish());
  EXPECT_EQ(restored.missed_share(133.0), curve.missed_share(133.0));
  EXPECT_EQ(restored.capacity(), curve.capacity());
  for (LoadCurve* both : {&curve, &restored}) {
    both->add(100.0, 500, 300);
    both->age();
  }
  EXPECT_EQ(restored.missed_share(98.0), curve.missed_share(98.0));
}

}  // namespace
}  // namespace penstock::planner
