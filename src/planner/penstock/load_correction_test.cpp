#include "planner/penstock/load_correction.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/random.h"

namespace penstock::planner {
namespace {

// Attainment of a fleet under a load relative to its capacity: all is met below 0.9, and little above 1.1.
double attainment(double load) { return std::clamp(1.0 - 4.0 * (load - 0.9), 0.1, 1.0); }

TrialCheck check_of(double trial, double observed) { return {1000.0, trial, observed}; }

class LoadCorrectionTest : public ::testing::Test {
 protected:
  // A fleet under this load in trials, and under `off` times as much in reality. Returns the difference of the last
  // check in points.
  double checks(int count, double load, double off) {
    TrialCheck check;
    for (int i = 0; i < count; ++i) {
      now += core::kMinute;
      check = check_of(attainment(load * correction.factor()), attainment(load * off));
      correction.observe(check, now);
    }
    return 100.0 * std::abs(check.trial - check.observed);
  }

  core::Instant now = core::kStart;
  LoadCorrection correction;
};

TEST_F(LoadCorrectionTest, OneCheckDoesNotLowerItBelowOne) {
  checks(1, 0.9, 1.05);
  ASSERT_GT(correction.factor(), 1.0);
  const double before = correction.factor();
  for (int i = 0; i < 60; ++i) correction.decay();
  ASSERT_LT(correction.factor(), before);
  correction.observe(check_of(0.8, 1.0), now);
  EXPECT_GE(correction.factor(), 1.0);
}

TEST_F(LoadCorrectionTest, TrialsThatAgreeCorrectNothing) {
  EXPECT_LE(checks(100, 0.95, 1.0), 0.0);
  EXPECT_EQ(correction.factor(), 1.0);
}

TEST_F(LoadCorrectionTest, ConvergesToTheLoadThatExplainsWhatWasObserved) {
  for (const double off : {1.3, 1.1, 0.9, 1.0 / 1.3}) {
    correction = {};
    // The fleet has some misses in reality. A percent of the load is 4 points of this curve.
    EXPECT_LE(checks(80, 0.98 / off, off), 5.0) << off;
    EXPECT_NEAR(correction.factor(), off, 0.015 * off);
  }
}

// Slices are checked minutes later: each of them saw the same overload.
TEST_F(LoadCorrectionTest, AnOverloadThatIsExplainedCountsOnce) {
  checks(40, 0.9, 1.2);
  EXPECT_NEAR(correction.factor(), 1.2, 0.02);
}

TEST_F(LoadCorrectionTest, FallsBelowOneOnlyAfterSeveralChecks) {
  checks(7, 1.1, 0.9);
  EXPECT_EQ(correction.factor(), 1.0);
  checks(1, 1.1, 0.9);
  EXPECT_NEAR(correction.factor(), 1.0 / 1.05, 1e-9);
}

TEST_F(LoadCorrectionTest, ChanceIsNotCorrected) {
  core::RandomStream random{5};
  double least = 1.0, most = 1.0;
  for (int i = 0; i < 300; ++i) {
    int met = 0, met_in_trial = 0;
    for (int request = 0; request < 600; ++request) {
      met += random.uniform() < 0.99 ? 1 : 0;
      met_in_trial += random.uniform() < 0.99 ? 1 : 0;
    }
    correction.observe({600.0, met_in_trial / 600.0, met / 600.0}, now);
    least = std::min(least, correction.factor());
    most = std::max(most, correction.factor());
  }
  EXPECT_GE(least, 1.0 / 1.06);
  EXPECT_LE(most, 1.06);
}

TEST_F(LoadCorrectionTest, ABurningSloRaisesItUntilChecksExplainTheMisses) {
  correction.raise(now);
  correction.raise(now);
  EXPECT_NEAR(correction.factor(), 1.21, 1e-9);
  correction.observe(check_of(0.97, 0.97), now);
  correction.raise(now);
  EXPECT_NEAR(correction.factor(), 1.21, 1e-9);
  correction.raise(now + std::chrono::minutes{6});  // The check says nothing of that time.
  EXPECT_NEAR(correction.factor(), 1.331, 1e-9);
  for (int i = 0; i < 20; ++i) correction.raise(now + std::chrono::hours{1});
  EXPECT_EQ(correction.factor(), 2.0);
}

TEST_F(LoadCorrectionTest, IsForgottenOverHours) {
  for (int i = 0; i < 20; ++i) correction.raise(now);
  for (int minute = 0; minute < 60; ++minute) correction.decay();
  EXPECT_NEAR(correction.factor(), 1.55, 0.01);
  for (int minute = 0; minute < 600; ++minute) correction.decay();
  EXPECT_NEAR(correction.factor(), 1.0, 0.002);
}

TEST_F(LoadCorrectionTest, CorrectsAPlanByWholeReplicas) {
  EXPECT_EQ(correction.corrected(1), 1U);
  EXPECT_EQ(correction.corrected(8), 8U);
  correction.raise(now);
  EXPECT_EQ(correction.corrected(1), 1U);
  EXPECT_EQ(correction.corrected(4), 5U);
  EXPECT_EQ(correction.corrected(8), 9U);
  for (int i = 0; i < 3; ++i) correction.raise(now);
  EXPECT_EQ(correction.corrected(1), 2U);
  checks(200, 1.9, 0.5);
  EXPECT_EQ(correction.corrected(1), 1U);
  EXPECT_EQ(correction.corrected(8), 4U);
}

// Three replicas that serve what 2.2 need do not become two.
TEST_F(LoadCorrectionTest, ASmallerPlanLacksNoPartOfAReplica) {
  while (correction.factor() > 0.74) checks(1, 1.9, 0.4);
  ASSERT_GT(correction.factor(), 0.67);
  EXPECT_EQ(correction.corrected(1), 1U);
  EXPECT_EQ(correction.corrected(2), 2U);
  EXPECT_EQ(correction.corrected(3), 3U);
  EXPECT_EQ(correction.corrected(4), 3U);
}

// A fleet that a correction has enlarged is no reason to plan for more.
TEST_F(LoadCorrectionTest, ThePlanOfACorrectedFleetIsFoundAgain) {
  EXPECT_EQ(correction.planned({1, 8}), (Fleet{1, 8}));
  for (int step = 0; step < 20; ++step) {
    for (std::uint32_t plan = 1; plan <= 200; ++plan) {
      const std::uint32_t fleet = correction.corrected(plan);
      const std::uint32_t found = correction.planned({fleet}).front();
      EXPECT_GE(found, plan);
      EXPECT_EQ(correction.corrected(found), fleet) << plan << " x " << correction.factor();
      EXPECT_GT(correction.corrected(found + 1), fleet) << plan << " x " << correction.factor();
    }
    if (step < 10)
      correction.raise(now);
    else
      checks(10, 1.9, 0.5);
  }
  EXPECT_EQ(correction.factor(), 0.5);
}

}  // namespace
}  // namespace penstock::planner
