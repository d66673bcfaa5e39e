#include "evaluation/evaluation.h"

#include <gtest/gtest.h>

#include <cmath>

namespace penstock::evaluation {
namespace {

decision::RunResult run_of(double gpu_hours, double attainment, const char* policy = "static") {
  decision::RunResult result;
  result.policy = policy;
  result.requests = 1000;
  result.gpu_hours = gpu_hours;
  result.slo_attainment = attainment;
  result.duration_s = 7200.0;
  return result;
}

const std::vector<decision::RunResult> kFrontier = {run_of(1.0, 0.5), run_of(2.0, 0.9), run_of(4.0, 0.98),
                                                    run_of(5.0, 0.9805)};

TEST(Frontier, LiesOnItsFleets) {
  for (const auto& fleet : kFrontier)
    EXPECT_DOUBLE_EQ(frontier_attainment(kFrontier, fleet.gpu_hours), fleet.slo_attainment);
}

TEST(Frontier, IsLinearBetweenTwoFleets) {
  EXPECT_DOUBLE_EQ(frontier_attainment(kFrontier, 1.5), 0.7);
  EXPECT_DOUBLE_EQ(frontier_attainment(kFrontier, 2.5), 0.92);
}

TEST(Frontier, IsZeroAtNoCostAndConstantBeyondTheLargestFleet) {
  EXPECT_DOUBLE_EQ(frontier_attainment(kFrontier, 0.5), 0.25);
  EXPECT_DOUBLE_EQ(frontier_attainment(kFrontier, 0.0), 0.0);
  EXPECT_DOUBLE_EQ(frontier_attainment(kFrontier, 50.0), 0.9805);
}

TEST(Frontier, NeverDecreasesIfALargerFleetIsWorseByChance) {
  const std::vector<decision::RunResult> uneven = {run_of(1.0, 0.9), run_of(2.0, 0.8), run_of(3.0, 0.95)};
  EXPECT_DOUBLE_EQ(frontier_attainment(uneven, 2.0), 0.9);
  EXPECT_DOUBLE_EQ(frontier_attainment(uneven, 1.5), 0.9);
}

TEST(Frontier, LeavesOutAnOverloadedFleetThatCostsMoreThanALargerOne) {
  const std::vector<decision::RunResult> drowning = {run_of(2.6, 0.0), run_of(2.6, 0.1), run_of(3.0, 0.5)};
  EXPECT_DOUBLE_EQ(frontier_attainment(drowning, 3.0), 0.5);
  EXPECT_DOUBLE_EQ(frontier_attainment(drowning, 2.8), 0.3);
}

TEST(PeakFleet, IsTheSmallestFleetThatMoreReplicasDoNotImprove) {
  ASSERT_NE(peak_fleet(kFrontier), nullptr);
  EXPECT_DOUBLE_EQ(peak_fleet(kFrontier)->gpu_hours, 4.0);
  EXPECT_EQ(peak_fleet({}), nullptr);
}

TEST(Verdicts, ARunMustNotLieBelowTheFrontier) {
  EXPECT_TRUE(against_frontier(run_of(1.5, 0.71), kFrontier).reached);
  EXPECT_NEAR(against_frontier(run_of(1.5, 0.71), kFrontier).points, 1.0, 1e-9);
  EXPECT_FALSE(against_frontier(run_of(1.5, 0.69), kFrontier).reached);
}

TEST(Verdicts, TheClairvoyantPolicyMustBeCloseInBothFigures) {
  const auto clairvoyant = run_of(2.0, 0.98, "clairvoyant");
  EXPECT_TRUE(against_clairvoyant(run_of(2.2, 0.975), clairvoyant, {}).reached);
  EXPECT_FALSE(against_clairvoyant(run_of(2.4, 0.975), clairvoyant, {}).reached);
  EXPECT_FALSE(against_clairvoyant(run_of(2.0, 0.969), clairvoyant, {}).reached);
  EXPECT_TRUE(against_clairvoyant(run_of(1.0, 0.99), clairvoyant, {}).reached);
}

TEST(Verdicts, APeakFleetMustCostMuchMoreAndGainLittle) {
  const auto fleet = run_of(10.0, 0.99);
  EXPECT_TRUE(against_peak_fleet(run_of(7.0, 0.985), fleet, {}).reached);
  EXPECT_FALSE(against_peak_fleet(run_of(7.1, 0.985), fleet, {}).reached);
  EXPECT_FALSE(against_peak_fleet(run_of(5.0, 0.97), fleet, {}).reached);
}

TEST(Verdicts, HalfTheViolationsAtEqualGpuHoursBeatARule) {
  const auto rule = run_of(4.0, 0.90, "hpa-rate");
  const Verdict beaten = against_rule(run_of(4.0, 0.95), rule, {});
  EXPECT_TRUE(beaten.reached);
  EXPECT_DOUBLE_EQ(beaten.violations_ratio, 0.5);
  EXPECT_FALSE(against_rule(run_of(4.0, 0.949), rule, {}).reached);
  EXPECT_FALSE(against_rule(run_of(4.1, 0.99), rule, {}).reached);
}

TEST(Verdicts, AQuarterFewerGpuHoursAtEqualAttainmentBeatARule) {
  const auto rule = run_of(4.0, 0.90, "hpa-rate");
  EXPECT_TRUE(against_rule(run_of(3.0, 0.90), rule, {}).reached);
  EXPECT_FALSE(against_rule(run_of(3.1, 0.90), rule, {}).reached);
  EXPECT_FALSE(against_rule(run_of(2.0, 0.899), rule, {}).reached);
}

TEST(Verdicts, ARuleWithoutViolationsIsBeatenOnlyByZeroViolations) {
  const auto rule = run_of(4.0, 1.0, "kpa");
  EXPECT_TRUE(against_rule(run_of(3.9, 1.0), rule, {}).reached);
  const Verdict worse = against_rule(run_of(3.9, 0.999), rule, {});
  EXPECT_FALSE(worse.reached);
  EXPECT_TRUE(std::isinf(worse.violations_ratio));
}

TEST(Figures, ViolationsAreWholeRequestsAndDirectionChangesAreCountedByTheHour) {
  auto run = run_of(1.0, 0.998);
  EXPECT_EQ(violations(run), 2U);
  run.direction_changes = 6;
  EXPECT_DOUBLE_EQ(direction_changes_per_hour(run), 3.0);
  run.duration_s = 0.0;
  EXPECT_DOUBLE_EQ(direction_changes_per_hour(run), 0.0);
}

TEST(Figures, OnlyUnexplainedFailuresCountAgainstScaleDown) {
  auto run = run_of(1.0, 0.9);
  run.failures = {{"prompt_exceeds_kv_cache", 3}, {"replica_crashed", 2}, {"unfinished", 1}};
  EXPECT_EQ(scale_down_failures(run), 1U);
}

TEST(Figures, ARunIsFoundByItsPolicy) {
  const std::vector<decision::RunResult> runs = {run_of(1.0, 0.5), run_of(2.0, 0.6, "kpa")};
  ASSERT_NE(find_run(runs, "kpa"), nullptr);
  EXPECT_DOUBLE_EQ(find_run(runs, "kpa")->gpu_hours, 2.0);
  EXPECT_EQ(find_run(runs, "apa"), nullptr);
}

}  // namespace
}  // namespace penstock::evaluation
