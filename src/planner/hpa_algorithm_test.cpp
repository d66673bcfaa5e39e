// Kubernetes' algorithm against cases computed by hand from replica_calculator.go and horizontal.go.
#include "planner/hpa_algorithm.h"

#include <gtest/gtest.h>

#include <array>

#include "planner/planner_testing.h"

namespace penstock::planner {
namespace {

using testing::at_s;

constexpr Bounds kWide{1, 1000};
constexpr HpaProposal to(double replicas, Reason reason = Reason::kLoadAboveTarget) { return {replicas, reason}; }

void expect_proposal(const HpaProposal& proposal, double replicas, Reason reason) {
  EXPECT_EQ(proposal.replicas, replicas);
  EXPECT_STREQ(to_string(proposal.reason), to_string(reason));
}

// ---- a Pods metric: target 4 a pod ----

TEST(HpaPods, ALoadWithinTenPercentOfTheTargetChangesNothing) {
  expect_proposal(propose_from_pods({8.8, 2, 0}, 4.0, 2), 2, Reason::kWithinTolerance);  // 8.8 / (4·2) = 1.1
  expect_proposal(propose_from_pods({7.2, 2, 0}, 4.0, 2), 2, Reason::kWithinTolerance);  // 0.9
}
TEST(HpaPods, AHighLoadProposesTheRatioTimesThePods) {
  expect_proposal(propose_from_pods({18.0, 2, 0}, 4.0, 2), 5, Reason::kLoadAboveTarget);  // 2.25 · 2 = 4.5 → 5
}
TEST(HpaPods, ALowLoadProposesFewer) {
  expect_proposal(propose_from_pods({5.0, 4, 0}, 4.0, 4), 2, Reason::kLoadBelowTarget);  // 0.3125 · 4 = 1.25 → 2
}
TEST(HpaPods, OnTheWayUpMissingPodsCountAsIdle) {
  // Two pods at 8 say ratio 2; with two idle ones it is 16 / (4·4) = 1.0: no change.
  expect_proposal(propose_from_pods({16.0, 2, 2}, 4.0, 4), 4, Reason::kWithinTolerance);
  // At 12 each: 24 / 16 = 1.5, ceil(1.5 · 4) = 6 instead of ceil(3 · 2) = 6 … of four pods.
  expect_proposal(propose_from_pods({24.0, 2, 2}, 4.0, 4), 6, Reason::kLoadAboveTarget);
}
TEST(HpaPods, OnTheWayDownMissingPodsCountAsAtTheTarget) {
  // Two pods at 1 say ratio 0.25, one pod would do; with two at 4 it is 10 / 16 = 0.625: ceil(2.5) = 3.
  expect_proposal(propose_from_pods({2.0, 2, 2}, 4.0, 4), 3, Reason::kLoadBelowTarget);
}
TEST(HpaPods, MissingPodsNeverTurnTheDirection) {
  // Ratio 1.25 up; with three idle pods 5 / 16 = 0.31 would be down: stay.
  expect_proposal(propose_from_pods({5.0, 1, 3}, 4.0, 4), 4, Reason::kWithinTolerance);
}
TEST(HpaPods, WithoutAnyValueThereIsNoProposal) {
  expect_proposal(propose_from_pods({0.0, 0, 3}, 4.0, 3), 3, Reason::kNoData);
}

// ---- an External metric with an AverageValue target of 10 ----

TEST(HpaTotal, WithinToleranceKeepsTheReplicasThereAre) {
  expect_proposal(propose_from_total(32.9, 10.0, 3), 3, Reason::kWithinTolerance);  // 32.9 / 30 = 1.097
}
TEST(HpaTotal, OutsideItDividesTheTotalByTheTarget) {
  expect_proposal(propose_from_total(33.5, 10.0, 3), 4, Reason::kLoadAboveTarget);  // 1.117 → ceil(3.35)
  expect_proposal(propose_from_total(11.0, 10.0, 3), 2, Reason::kLoadBelowTarget);  // 0.367 → ceil(1.1)
  expect_proposal(propose_from_total(0.0, 10.0, 3), 0, Reason::kLoadBelowTarget);
}
TEST(HpaTotal, OneMoreThanElevenDisappearsInTheTolerance) {
  expect_proposal(propose_from_total(12.0, 1.0, 11), 11, Reason::kWithinTolerance);  // 12 / 11 = 1.09
}
TEST(HpaTotal, AnyLoadWithoutReplicasProposesSome) {
  expect_proposal(propose_from_total(1.0, 10.0, 0), 1, Reason::kLoadAboveTarget);
}

// ---- several metrics ----

TEST(HpaGreatest, TheGreatestProposalCounts) {
  const std::array proposals{to(2, Reason::kLoadBelowTarget), to(5), to(3, Reason::kWithinTolerance)};
  expect_proposal(greatest(proposals, 3), 5, Reason::kLoadAboveTarget);
}
TEST(HpaGreatest, AMetricWithoutDataForbidsToShrinkButNotToGrow) {
  const std::array down{to(2, Reason::kLoadBelowTarget), HpaProposal{}};
  expect_proposal(greatest(down, 3), 3, Reason::kNoData);
  const std::array up{to(5), HpaProposal{}};
  expect_proposal(greatest(up, 3), 5, Reason::kLoadAboveTarget);
}

// ---- behaviour ----

TEST(HpaBehaviour, GrowthIsAtMostTheGreaterOfDoubleAndFourPodsInFifteenSeconds) {
  HpaController hpa;
  EXPECT_DECISION(hpa.decide(at_s(0), 2, kWide, to(50)), 6, kLoadAboveTarget, kGrowthRate);    // max(4, 2 + 4)
  EXPECT_DECISION(hpa.decide(at_s(15), 6, kWide, to(50)), 12, kLoadAboveTarget, kGrowthRate);  // max(12, 10)
  EXPECT_DECISION(hpa.decide(at_s(30), 12, kWide, to(50)), 24, kLoadAboveTarget, kGrowthRate);
}
TEST(HpaBehaviour, GrowthWithinThePeriodCountsFromItsStart) {
  HpaController hpa;
  EXPECT_DECISION(hpa.decide(at_s(0), 2, kWide, to(5)), 5, kLoadAboveTarget, kNone);
  // Ten seconds later the period began at 2 replicas: up to max(4, 6) = 6.
  EXPECT_DECISION(hpa.decide(at_s(10), 5, kWide, to(50)), 6, kLoadAboveTarget, kGrowthRate);
}
TEST(HpaBehaviour, ShrinkingWaitsForTheGreatestProposalOfFiveMinutesToPass) {
  HpaController hpa;
  EXPECT_DECISION(hpa.decide(at_s(0), 4, kWide, to(4, Reason::kWithinTolerance)), 4, kWithinTolerance, kNone);
  EXPECT_DECISION(hpa.decide(at_s(15), 4, kWide, to(1, Reason::kLoadBelowTarget)), 4, kStabilized, kStabilization);
  EXPECT_DECISION(hpa.decide(at_s(285), 4, kWide, to(2, Reason::kLoadBelowTarget)), 4, kStabilized, kStabilization);
  // At 300 s the 4 of 0 s is out of the window; the 2 of 285 s is the greatest of the rest.
  EXPECT_DECISION(hpa.decide(at_s(300), 4, kWide, to(1, Reason::kLoadBelowTarget)), 2, kLoadBelowTarget,
                  kStabilization);
}
TEST(HpaBehaviour, TheSizeFoundAtTheStartCountsAsARecommendation) {
  HpaController hpa;
  EXPECT_DECISION(hpa.decide(at_s(0), 7, kWide, to(1, Reason::kLoadBelowTarget)), 7, kStabilized, kStabilization);
  EXPECT_DECISION(hpa.decide(at_s(300), 7, kWide, to(1, Reason::kLoadBelowTarget)), 1, kLoadBelowTarget, kNone);
}
TEST(HpaBehaviour, AWindowForGrowthTakesTheLeastProposal) {
  const HpaRules free{core::Duration::zero(), {{HpaPolicy::Kind::kPods, 100, std::chrono::seconds{15}}}};
  HpaController hpa{{.up = {std::chrono::seconds{30}, free.policies}, .down = free}};
  EXPECT_DECISION(hpa.decide(at_s(0), 2, kWide, to(8)), 2, kStabilized, kStabilization);  // the 2 found
  EXPECT_DECISION(hpa.decide(at_s(15), 2, kWide, to(5)), 2, kStabilized, kStabilization);
  // min(8, 5, 9): 0 s is out.
  EXPECT_DECISION(hpa.decide(at_s(30), 2, kWide, to(9)), 5, kLoadAboveTarget, kStabilization);
}
TEST(HpaBehaviour, PodsPoliciesLimitTheWayDown) {
  const HpaRules one{core::Duration::zero(), {{HpaPolicy::Kind::kPods, 1, std::chrono::seconds{120}}}};
  HpaController hpa{{.up = one, .down = one}};
  EXPECT_DECISION(hpa.decide(at_s(0), 5, kWide, to(2, Reason::kLoadBelowTarget)), 4, kLoadBelowTarget, kShrinkRate);
  EXPECT_DECISION(hpa.decide(at_s(60), 4, kWide, to(2, Reason::kLoadBelowTarget)), 4, kLoadBelowTarget, kShrinkRate);
  EXPECT_DECISION(hpa.decide(at_s(120), 4, kWide, to(2, Reason::kLoadBelowTarget)), 3, kLoadBelowTarget, kShrinkRate);
}
TEST(HpaBehaviour, AChangeThatWasNotMadeLimitsNoLaterOne) {
  const HpaRules one{core::Duration::zero(), {{HpaPolicy::Kind::kPods, 1, std::chrono::seconds{180}}}};
  HpaController hpa{{.up = one, .down = one}};
  EXPECT_DECISION(hpa.decide(at_s(0), 2, kWide, to(9)), 3, kLoadAboveTarget, kGrowthRate);
  // It was refused, or only observed.
  EXPECT_DECISION(hpa.decide(at_s(15), 2, kWide, to(9)), 3, kLoadAboveTarget, kGrowthRate);
  EXPECT_DECISION(hpa.decide(at_s(30), 3, kWide, to(9)), 3, kLoadAboveTarget, kGrowthRate);
}
TEST(HpaBehaviour, BoundsComeLast) {
  HpaController hpa;
  EXPECT_DECISION(hpa.decide(at_s(0), 4, {1, 5}, to(50)), 5, kLoadAboveTarget, kMaxReplicas);
  HpaController down{{.up = {core::Duration::zero(), {}},
                      .down = {core::Duration::zero(), {{HpaPolicy::Kind::kPercent, 100, std::chrono::seconds{15}}}}}};
  EXPECT_DECISION(down.decide(at_s(0), 4, {3, 5}, to(0, Reason::kLoadBelowTarget)), 3, kLoadBelowTarget, kMinReplicas);
}
TEST(HpaBehaviour, ASizeOutsideTheBoundsIsClampedWithoutTheMetric) {
  HpaController hpa;
  EXPECT_DECISION(hpa.decide(at_s(0), 9, {1, 5}, HpaProposal{}), 5, kNoData, kMaxReplicas);
  EXPECT_DECISION(hpa.decide(at_s(15), 1, {3, 5}, to(5)), 3, kLoadAboveTarget, kMinReplicas);
}
TEST(HpaBehaviour, WithoutDataNothingChanges) {
  HpaController hpa;
  EXPECT_DECISION(hpa.decide(at_s(0), 4, kWide, HpaProposal{}), 4, kNoData, kNone);
}

}  // namespace
}  // namespace penstock::planner
