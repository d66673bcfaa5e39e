#include "planner/penstock/trials.h"

#include <gtest/gtest.h>

namespace penstock::planner {
namespace {

TrialOutcome outcome(double requests, double met, std::vector<TrialCounts> targets = {}) {
  return {{requests, met}, {requests, met + 1}, {requests, met + 2}, std::move(targets)};
}

TEST(TrialOutcome, SumsCountOfEveryKind) {
  TrialOutcome sum = outcome(10, 5);
  sum += outcome(30, 27);
  EXPECT_EQ(sum.all.requests, 40.0);
  EXPECT_EQ(sum.all.met, 32.0);
  EXPECT_EQ(sum.ttft.met, 34.0);
  EXPECT_EQ(sum.itl.met, 36.0);
  EXPECT_EQ(sum.itl.requests, 40.0);
  EXPECT_EQ(sum.all.attainment(), 0.8);
  EXPECT_TRUE(sum.targets.empty());
}

TEST(TrialOutcome, SumsTargetByTargetEvenWhereOneHasMore) {
  TrialOutcome sum = outcome(10, 5, {{10, 5}});
  sum += outcome(20, 15, {{12, 8}, {8, 7}});
  ASSERT_EQ(sum.targets.size(), 2U);
  EXPECT_EQ(sum.targets[0].requests, 22.0);
  EXPECT_EQ(sum.targets[0].met, 13.0);
  EXPECT_EQ(sum.targets[1].requests, 8.0);
  EXPECT_EQ(sum.targets[1].met, 7.0);
  sum += outcome(1, 0);
  EXPECT_EQ(sum.targets.size(), 2U);
}

TEST(TrialOutcome, StandsForMoreRequestsWithTheSameShares) {
  const TrialOutcome few = outcome(10, 5, {{4, 1}, {6, 4}});
  const TrialOutcome many = few.times(2.5);
  EXPECT_EQ(many.all.requests, 25.0);
  EXPECT_EQ(many.all.met, 12.5);
  EXPECT_EQ(many.ttft.met, 15.0);
  EXPECT_EQ(many.itl.met, 17.5);
  EXPECT_EQ(many.targets[1].requests, 15.0);
  EXPECT_EQ(many.targets[1].attainment(), few.targets[1].attainment());
  EXPECT_EQ(few.all.requests, 10.0);
}

TEST(TrialOutcome, WithoutRequestsNothingIsMissed) {
  EXPECT_EQ(TrialCounts{}.attainment(), 1.0);
  EXPECT_EQ(outcome(10, 5).times(0.0).all.attainment(), 1.0);
}

}  // namespace
}  // namespace penstock::planner
