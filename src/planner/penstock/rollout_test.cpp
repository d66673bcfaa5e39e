// What each rollout phase does, and what it says the next would do.
#include <gtest/gtest.h>

#include "decision/figures.h"
#include "planner/penstock/course_testing.h"
#include "planner/penstock/penstock_planner.h"

namespace penstock::planner {
namespace {

using testing::Course;
using testing::quick;
using Fleet = std::vector<std::uint32_t>;

PlannerOptions in_phase(RolloutPhase phase) {
  PlannerOptions options = quick();
  options.phase = phase;
  return options;
}

std::uint32_t next_of(const Decision& decision, std::size_t pool = 0) {
  EXPECT_TRUE(decision.pools[pool].next_phase_target);
  return decision.pools[pool].next_phase_target.value_or(0);
}

// Three pools of two replicas each would do; a rise that only the last minute shows, at its end.
const Decision& after_a_rise(Course& run) {
  (void)run.at_rate(8.0, 900);
  return run.at_rate(24.0, 955);
}

TEST(Rollout, EveryPhaseHasAName) {
  EXPECT_STREQ(to_string(RolloutPhase::kObserve), "observe");
  EXPECT_STREQ(to_string(RolloutPhase::kGuardrails), "guardrails");
  EXPECT_STREQ(to_string(RolloutPhase::kThroughput), "throughput");
  EXPECT_STREQ(to_string(RolloutPhase::kLoad), "load");
  EXPECT_STREQ(to_string(RolloutPhase::kPhaseSpecific), "phase-specific");
  EXPECT_STREQ(to_string(RolloutPhase::kCost), "cost");
}

TEST(Rollout, ObserveNeverChangesAnything) {
  PlannerOptions options = in_phase(RolloutPhase::kObserve);
  options.guardrails.gpu_budget = 1;
  options.schedule.warm_pool = 3;
  Course run{options};
  run.change = [](signals::Observation& seen) {
    seen.pools[0].min_replicas = 6;  // not even bounds hold
    seen.pools[0].max_replicas = 20;
  };
  for (const double rate : {2.0, 40.0, 0.0}) {
    const Decision decision = run.at_rate(rate, run.now_s + 900.0);
    EXPECT_DECISION(decision.pools[0], 4, kObserveOnly, kNone);
    EXPECT_EQ(decision.phase, RolloutPhase::kObserve);
    EXPECT_EQ(next_of(decision), 6U);
  }
  EXPECT_TRUE(run.changes.empty());
}

TEST(Rollout, GuardrailsApplyBoundsAndBudgetAndShowThePlan) {
  Course run{in_phase(RolloutPhase::kGuardrails)};
  const Decision decision = run.at_rate(24.0, 600);
  EXPECT_DECISION(decision.pools[0], 4, kObserveOnly, kNone);
  EXPECT_EQ(next_of(decision), 12U);

  run.change = [](signals::Observation& seen) { seen.pools[0].min_replicas = 6; };
  EXPECT_EQ(run.at_rate(24.0, 700).pools[0].target, 6U);
  run.change = [](signals::Observation& seen) { seen.pools[0].max_replicas = 3; };
  EXPECT_EQ(run.at_rate(24.0, 1200).pools[0].target, 3U);
}

TEST(Rollout, GuardrailsLowerAFleetToTheBudget) {
  PlannerOptions options = in_phase(RolloutPhase::kGuardrails);
  options.guardrails.gpu_budget = 2;
  Course run{options};
  EXPECT_EQ(run.at_rate(24.0, 1200).pools[0].target, 2U);
}

TEST(Rollout, ThroughputIgnoresTheLoadLoop) {
  Course run{in_phase(RolloutPhase::kThroughput)};
  const Decision decision = after_a_rise(run);
  EXPECT_LT(decision.pools[0].target, 8U);
  EXPECT_EQ(next_of(decision), 12U);                        // the load loop's proposal
  EXPECT_EQ(run.at_rate(24.0, 1500).pools[0].target, 12U);  // the forecast comes to it in time
}

TEST(Rollout, ThroughputIgnoresASloThatBurns) {
  Course run{in_phase(RolloutPhase::kThroughput)};
  run.ttft_ms = [](const Course&) { return 5000.0F; };
  const Decision decision = run.at_rate(16.0, 1200);
  EXPECT_EQ(decision.pools[0].target, 8U);
  EXPECT_GT(next_of(decision), 8U);
}

TEST(Rollout, LoadRaisesTheFleet) {
  Course run{in_phase(RolloutPhase::kLoad)};
  const Decision decision = after_a_rise(run);
  EXPECT_EQ(decision.pools[0].target, 12U);
  EXPECT_EQ(next_of(decision), 12U);  // With one pool, the next phase has the same result.
}

TEST(Rollout, LoadKeepsTheRatioOfTwoPools) {
  Course run{in_phase(RolloutPhase::kLoad), {2.0, 8.0}};
  run.fleet = {4, 2};
  const Decision decision = run.at_rate(16.0, 60);  // the first needs twice what it has, the second what it has
  EXPECT_EQ(run.fleet, (Fleet{8, 4}));
  (void)run.at_rate(16.0, 300);
  EXPECT_EQ(run.fleet, (Fleet{8, 4}));
  EXPECT_EQ(decision.pools.size(), 2U);
}

TEST(Rollout, LoadShowsTheSavingsOfPhaseSpecific) {
  Course run{in_phase(RolloutPhase::kLoad), {2.0, 8.0}};
  run.fleet = {4, 2};
  const Decision decision = run.at_rate(16.0, 300);
  EXPECT_EQ(next_of(decision, 0), 8U);
  EXPECT_EQ(next_of(decision, 1), 2U);
}

TEST(Rollout, PhaseSpecificGrowsOnlyThePoolThatFails) {
  Course run{in_phase(RolloutPhase::kPhaseSpecific), {2.0, 8.0}};
  run.fleet = {4, 2};
  (void)run.at_rate(16.0, 300);
  EXPECT_EQ(run.fleet, (Fleet{8, 2}));
  Course other{in_phase(RolloutPhase::kPhaseSpecific), {8.0, 2.0}};
  other.fleet = {2, 4};
  (void)other.at_rate(16.0, 300);
  EXPECT_EQ(other.fleet, (Fleet{2, 8}));
}

// Traffic that never rises, and a backtest that learns from it.
PlannerOptions learning(RolloutPhase phase) {
  PlannerOptions options = in_phase(phase);
  options.controller.reset();
  return options;
}

TEST(Rollout, CostPlansAsTheBacktestHasChosen) {
  Course run{learning(RolloutPhase::kCost)};
  run.start_up_s = 120.0;
  EXPECT_GT(run.at_rate(16.0, 1200).pools[0].target, 9U);  // futures of other traffic
  const Decision decision = run.at_rate(16.0, 36'000);
  EXPECT_LE(decision.pools[0].target, 9U);
  EXPECT_FALSE(decision.pools[0].next_phase_target);  // it is the last
}

TEST(Rollout, PhaseSpecificIsAsCarefulAsTheFirstChoice) {
  Course run{learning(RolloutPhase::kPhaseSpecific)};
  run.start_up_s = 120.0;
  (void)run.at_rate(16.0, 36'000);
  const Decision decision = run.at_rate(16.0, 36'600);
  EXPECT_LE(next_of(decision), decision.pools[0].target);
}

TEST(Rollout, MissesMakeTheBacktestCareful) {
  Course good{learning(RolloutPhase::kCost)}, bad{learning(RolloutPhase::kCost)};
  bad.ttft_ms = [](const Course& course) { return course.requests.size() % 25 == 0 ? 5000.0F : 100.0F; };
  bad.change = [](signals::Observation& seen) { seen.pools[0].last_minute.ttft = {}; };  // it is not that bad now
  for (Course* run : {&good, &bad}) {
    run->start_up_s = 120.0;
    (void)run->at_rate(16.0, 7200);
  }
  const auto allowance = [](Course& run) {
    return decision::evidence_value(run.at_rate(16.0, run.now_s + 5).pools[0], "miss_allowance", "share").value_or(-1);
  };
  EXPECT_LT(allowance(bad), allowance(good));
}

}  // namespace
}  // namespace penstock::planner
