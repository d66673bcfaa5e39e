#include "replay/run_notes.h"

#include <gtest/gtest.h>

namespace penstock::replay {
namespace {

decision::RunResult result_of(const char* policy, double attainment, std::optional<double> goal = {}) {
  decision::RunResult result;
  result.policy = policy;
  result.slo_attainment = attainment;
  result.goal = goal;
  return result;
}

TEST(RunNotes, AClairvoyantPolicyBelowItsGoalSaysSo) {
  const std::vector<decision::RunResult> late{result_of("clairvoyant:goal=95%", 0.4434, 0.95), result_of("static", 0.2),
                                              result_of("penstock", 0.9, 0.99)};
  const auto notes = run_notes(late, {});
  ASSERT_EQ(notes.size(), 1U);
  EXPECT_TRUE(notes[0].starts_with("clairvoyant:goal=95%: its SLO attainment of 44.3 % misses the goal of 95.0 %"))
      << notes[0];
  const std::vector<decision::RunResult> high{result_of("clairvoyant", 0.9993, 0.9999)};
  EXPECT_TRUE(run_notes(high, {}).at(0).starts_with(
      "clairvoyant: its SLO attainment of 99.9 % misses the goal of 99.99 %, which no fleet"))
      << run_notes(high, {}).at(0);
  const std::vector<decision::RunResult> good{result_of("clairvoyant:goal=95%", 0.951, 0.95)};
  EXPECT_TRUE(run_notes(good, {}).empty());
}

TEST(RunNotes, PoliciesThatIgnoreSchedulesAreNamed) {
  const std::vector<decision::RunResult> results{result_of("penstock", 1.0), result_of("static", 1.0),
                                                 result_of("hpa-rate", 1.0)};
  configuration::PlannerSetup planner;
  EXPECT_TRUE(run_notes(results, planner).empty());
  planner.schedules.emplace_back();
  EXPECT_EQ(run_notes(results, planner),
            std::vector<std::string>{"schedules are part of the policy penstock, and not of static, hpa-rate"});
  planner.options.schedule.warm_pool = 1;
  EXPECT_TRUE(run_notes(results, planner)[0].starts_with("schedules and the warm pool are part of"));
  planner.schedules.clear();
  EXPECT_TRUE(run_notes(results, planner)[0].starts_with("the warm pool is part of"));
  EXPECT_TRUE(run_notes(std::span{results}.first(1), planner).empty());
}

}  // namespace
}  // namespace penstock::replay
