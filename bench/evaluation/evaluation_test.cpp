#include "evaluation/evaluation.h"

#include <gtest/gtest.h>

#include <cmath>

#include "evaluation/evaluation_testing.h"

namespace penstock::evaluation {
namespace {

using testing::peer;
using testing::run;
using testing::sample;

TEST(EqualAttainment, KeepsPointsThatNoOtherBeatsInBoth) {
  const auto kept = efficient({{0.99, 5.0}, {0.95, 3.0}, {0.94, 4.0}, {0.98, 6.0}, {0.999, 7.0}});
  ASSERT_EQ(kept.size(), 3U);
  EXPECT_DOUBLE_EQ(kept[0].attainment, 0.95);
  EXPECT_DOUBLE_EQ(kept[1].attainment, 0.99);
  EXPECT_DOUBLE_EQ(kept[2].attainment, 0.999);
}

TEST(EqualAttainment, IsLinearInTheLogarithmOfMisses) {
  const std::vector<Point> points = {{0.9, 2.0}, {0.99, 4.0}};
  EXPECT_NEAR(cost_at(points, 0.99)->gpu_hours, 4.0, 1e-12);
  EXPECT_NEAR(cost_at(points, 1.0 - std::sqrt(0.1 * 0.01))->gpu_hours, 3.0, 1e-9);
  EXPECT_FALSE(cost_at(points, 0.95)->at_most);
}

TEST(EqualAttainment, IsAnUpperBoundBelowTheLeastAndUnknownBeyondTheMost) {
  const std::vector<Point> points = {{0.97, 2.0}, {0.99, 4.0}};
  EXPECT_DOUBLE_EQ(cost_at(points, 0.95)->gpu_hours, 2.0);
  EXPECT_TRUE(cost_at(points, 0.95)->at_most);
  EXPECT_FALSE(cost_at(points, 0.97)->at_most);
  EXPECT_FALSE(cost_at(points, 0.995).has_value());
  EXPECT_FALSE(cost_at({}, 0.5).has_value());
}

TEST(EqualAttainment, DoesNotInterpolateFromARunThatFails) {
  const std::vector<Point> points = {{0.4, 2.0}, {0.999, 14.0}};
  EXPECT_DOUBLE_EQ(cost_at(points, 0.99)->gpu_hours, 14.0);
  EXPECT_TRUE(cost_at(points, 0.99)->at_most);
}

TEST(EqualAttainment, ARunWithoutMissesHasAFiniteLogarithm) {
  const std::vector<Point> points = {{0.9, 2.0}, {1.0, 4.0}};
  EXPECT_NEAR(cost_at(points, 0.99)->gpu_hours, 2.5, 1e-9);  // One of four decades down to one miss in 100,000.
}

TEST(Comparison, TheBestPeerHasTheSettingThatSuitsTheTrace) {
  const TraceEvaluation trace = sample().traces[0];
  const auto best = best_peer(trace, 0.99);
  ASSERT_TRUE(best);
  EXPECT_EQ(best->name, "keda-tokens");
  EXPECT_NEAR(best->gpu_hours, 8.0, 1e-9);
  EXPECT_FALSE(best_peer(trace, 0.99999));
  ASSERT_NE(run_of_best_peer(trace, 0.99), nullptr);
  EXPECT_EQ(run_of_best_peer(trace, 0.99)->policy, "keda-tokens:utilisation=0.75");
  EXPECT_EQ(run_of_best_peer(trace, 0.98), run_of_best_peer(trace, 0.99));  // The run between 97 and 99 % is none.
  EXPECT_EQ(run_of_best_peer(trace, 0.99999), nullptr);
}

TEST(Comparison, TheOracleIsNeverWorseThanAnyRun) {
  TraceEvaluation trace = sample().traces[0];
  EXPECT_NEAR(oracle_cost(trace, 0.99)->gpu_hours, 5.0, 1e-9);
  trace.peers[0].runs.push_back(run("keda-tokens:utilisation=2", 0.992, 4.0, 2.0));
  EXPECT_LE(oracle_cost(trace, 0.99)->gpu_hours, 4.0);
}

// Between 90 and 99.9 % the fixed fleets interpolate to less than the frontier that has the clairvoyant's run.
TEST(Comparison, TheOracleIsNeverAboveTheInterpolatedCostOfAPolicy) {
  TraceEvaluation trace;
  trace.fixed.runs = {run("static 2", 0.9, 4.0, 2.0), run("static 4", 0.999, 4.4, 4.0)};
  trace.oracle = {run("clairvoyant:goal=0.95", 0.95, 4.3, 0.95)};
  ASSERT_LT(cost_of(trace.fixed.runs, 0.97)->gpu_hours, 4.3);
  EXPECT_LE(oracle_cost(trace, 0.97)->gpu_hours, cost_of(trace.fixed.runs, 0.97)->gpu_hours);
}

TEST(Comparison, AFailedRunIsChargedTheCheapestSafeFixedFleet) {
  const TraceEvaluation trace = sample().traces[0];
  EXPECT_DOUBLE_EQ(cheapest_fixed(trace)->gpu_hours, 9.0);
  EXPECT_DOUBLE_EQ(charged(trace, run("kpa", 0.9849, 1.0)), 9.0);
  EXPECT_DOUBLE_EQ(charged(trace, run("kpa", 0.985, 1.0)), 1.0);
}

TEST(Transfers, TakeTheCheapestSettingThatReachedTheGoalElsewhere) {
  const PolicyRuns runs = peer("keda-tokens", "utilisation",
                               {run("a", 0.999, 12.0, 0.5), run("b", 0.991, 9.0, 0.6), run("c", 0.96, 7.0, 0.8)});
  EXPECT_DOUBLE_EQ(*tuned_setting(runs), 0.6);
  EXPECT_FALSE(tuned_setting(peer("x", "y", {run("c", 0.96, 7.0, 0.8)})));
}

TEST(Transfers, ARunBetweenTwoSettingsIsInterpolated) {
  const PolicyRuns runs = peer("keda-tokens", "utilisation", {run("a", 0.999, 12.0, 0.5), run("c", 0.9, 8.0, 2.0)});
  const auto between = run_at(runs, 1.25);
  ASSERT_TRUE(between);
  EXPECT_NEAR(between->attainment, 0.99, 1e-9);
  EXPECT_NEAR(between->gpu_hours, 10.0, 1e-9);
  EXPECT_DOUBLE_EQ(run_at(runs, 0.5)->gpu_hours, 12.0);
  EXPECT_FALSE(run_at(runs, 0.4));
  EXPECT_FALSE(run_at(runs, 2.1));
}

TEST(Transfers, ChargeThePeerOnTheMeanOfAllOtherTraces) {
  Evaluation evaluation = sample();
  evaluation.traces.push_back(evaluation.traces[0]);
  evaluation.traces[1].name = "other";
  // Elsewhere a utilisation of 1.0 was enough; here it keeps 97 % and is charged the fixed fleet of 9 GPU-hours.
  evaluation.traces[1].peers[0].runs = {run("keda-tokens:utilisation=1", 0.991, 3.0, 1.0)};
  const auto best = best_peer_tuned_elsewhere(evaluation, evaluation.traces[0]);
  ASSERT_TRUE(best);
  EXPECT_EQ(best->name, "fixed fleet");  // All settings failed.
  EXPECT_NEAR(best->gpu_hours, 9.0, 1e-9);
  evaluation.traces.push_back(evaluation.traces[1]);
  evaluation.traces[2].name = "third";
  evaluation.traces[2].peers[0].runs = {run("keda-tokens:utilisation=0.75", 0.991, 3.0, 0.75)};
  const auto works = best_peer_tuned_elsewhere(evaluation, evaluation.traces[0]);
  EXPECT_EQ(works->name, "keda-tokens");
  EXPECT_NEAR(works->gpu_hours, 8.5, 1e-9);  // The mean of 9 and 8.
  evaluation.traces[2].variant = true;
  EXPECT_EQ(best_peer_tuned_elsewhere(evaluation, evaluation.traces[0])->name, "fixed fleet");
}

TEST(Pooled, SharesAreOfAllRequestsAndCostsAreMeans) {
  evaluation::Run first = run("kpa", 0.99, 4.0, 0.7), second = run("kpa", 0.9, 1.0, 0.7);
  first.misses = 10;
  second.requests = 3000;
  second.misses = 300;
  first.bursts = {10, 10};
  second.bursts = {30, 15};
  first.direction_changes_per_day = 20.0;
  second.replicas = 1;
  second.peak_replicas = 7;
  const evaluation::Run both = pooled(std::vector{first, second});
  EXPECT_EQ(both.policy, "kpa");
  EXPECT_DOUBLE_EQ(*both.setting, 0.7);
  EXPECT_EQ(both.requests, 4000U);
  EXPECT_EQ(both.misses, 310U);
  EXPECT_DOUBLE_EQ(both.attainment, 1.0 - 310.0 / 4000.0);
  EXPECT_DOUBLE_EQ(both.gpu_hours, 2.5);
  EXPECT_DOUBLE_EQ(*both.bursts.attainment(), 25.0 / 40.0);
  EXPECT_DOUBLE_EQ(both.direction_changes_per_day, 10.0);
  EXPECT_EQ(both.replicas, 1U);
  EXPECT_EQ(both.peak_replicas, 7U);
  ASSERT_EQ(both.of_seeds.size(), 2U);
  EXPECT_EQ(both.of_seeds[1].misses, 300U);
  const evaluation::Run alone = pooled(std::vector{first});
  EXPECT_DOUBLE_EQ(alone.attainment, 0.99);
  EXPECT_TRUE(alone.of_seeds.empty());
}

TEST(Comparison, OnlyPeersWithTheirStandardSettingDominate) {
  TraceEvaluation trace = sample().traces[0];
  const auto& ours = *at_goal(trace, 0.99);
  EXPECT_TRUE(dominated_by(trace, ours).empty());
  trace.peers[0].runs.push_back(run("keda-tokens:utilisation=3", 0.999, 1.0, 3.0));
  EXPECT_TRUE(dominated_by(trace, ours).empty());
  trace.peers[0].runs.back().standard = true;
  EXPECT_EQ(dominated_by(trace, ours), std::vector<std::string>{"keda-tokens"});
}

TEST(Comparison, ASettingThatWasTunedOnAnotherTraceMayDominate) {
  Evaluation evaluation = sample();
  evaluation.traces.push_back(evaluation.traces[0]);
  TraceEvaluation& trace = evaluation.traces[0];
  evaluation.traces[1].name = "other";
  const auto& ours = *at_goal(trace, 0.99);
  EXPECT_TRUE(dominated_by_transferred(evaluation, trace, ours).empty());
  trace.peers[0].runs[1].attainment = 0.995;  // With the setting 0.75, which is the cheapest at 99 % on the other.
  trace.peers[0].runs[1].gpu_hours = 5.5;
  EXPECT_EQ(dominated_by_transferred(evaluation, trace, ours), std::vector<std::string>{"keda-tokens"});
  evaluation.traces[1].variant = true;
  EXPECT_TRUE(dominated_by_transferred(evaluation, trace, ours).empty());
}

TEST(Comparison, BurstsAreComparedWithPeersThatCostNoMore) {
  TraceEvaluation trace = sample().traces[0];
  trace.peers[0].runs[0].bursts = {100, 99};  // 12 GPU-hours.
  trace.peers[0].runs[1].bursts = {100, 90};  // 8.
  EXPECT_EQ(burst_attainment_of_peers(trace, 9.0), 0.9);
  EXPECT_EQ(burst_attainment_of_peers(trace, 12.0), 0.99);
  EXPECT_FALSE(burst_attainment_of_peers(trace, 1.0));
}

TEST(ScaleDownFailures, LeaveOutRequestsThatNeverFitCrashesAndFullEngines) {
  decision::RunResult result;
  result.failures = {{"prompt_exceeds_kv_cache", 3}, {"replica_crashed", 2}, {"queue_timeout", 5}, {"unfinished", 4}};
  EXPECT_EQ(scale_down_failures(result), 4U);
}

TEST(SpreadOf, IsTheMeanAndTheRange) {
  const double figures[] = {3.0, 1.0, 5.0};
  const Spread spread = spread_of(figures);
  EXPECT_EQ(spread.mean, 3.0);
  EXPECT_EQ(spread.least, 1.0);
  EXPECT_EQ(spread.most, 5.0);
}

TEST(CpuReport, HasALineForEachPolicyThatTookTimeAndTheSum) {
  Evaluation evaluation = sample();
  TraceEvaluation& trace = evaluation.traces[0];
  trace.preparation_cpu_s = 2.0;
  trace.penstock.runs[0].cpu_s = 10.0;
  trace.penstock.runs[1].cpu_s = 20.5;
  evaluation.cpu_s = 100.0;
  const std::string report = cpu_report(evaluation);
  EXPECT_NE(report.find("sample           penstock                   2 runs     30.5 CPU s\n"), std::string::npos)
      << report;
  EXPECT_EQ(report.find("keda-tokens"), std::string::npos);
  EXPECT_NE(report.find("100.0 CPU s\n"), std::string::npos);
}

TEST(AtGoal, FindsNoRunOfAnotherGoal) {
  const Evaluation evaluation = sample();
  EXPECT_EQ(at_goal(evaluation.traces[0], 0.95), &evaluation.traces[0].penstock.runs[0]);
  EXPECT_EQ(at_goal(evaluation.traces[0], 0.98), nullptr);
}

}  // namespace
}  // namespace penstock::evaluation
