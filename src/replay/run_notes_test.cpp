#include "replay/run_notes.h"

#include <gtest/gtest.h>

namespace penstock::replay {
namespace {

decision::RunResult result_of(const char* policy, double attainment) {
  decision::RunResult result;
  result.policy = policy;
  result.slo_attainment = attainment;
  return result;
}

TEST(RunNotes, AClairvoyantPolicyBelowTheGoalSaysSo) {
  const std::vector<decision::RunResult> late{result_of("clairvoyant", 0.4434), result_of("static", 0.2)};
  const auto notes = run_notes(late, {}, 0.99);
  ASSERT_EQ(notes.size(), 1U);
  EXPECT_TRUE(notes[0].starts_with("clairvoyant: its SLO attainment of 44.3 % is below the goal of 99.0 %"))
      << notes[0];
  const std::vector<decision::RunResult> good{result_of("clairvoyant", 0.991)};
  EXPECT_TRUE(run_notes(good, {}, 0.99).empty());
}

TEST(RunNotes, PoliciesThatIgnoreSchedulesAreNamed) {
  const std::vector<decision::RunResult> results{result_of("penstock", 1.0), result_of("static", 1.0),
                                                 result_of("hpa-rate", 1.0)};
  configuration::PlannerSetup planner;
  EXPECT_TRUE(run_notes(results, planner, 0.99).empty());
  planner.schedules.emplace_back();
  EXPECT_EQ(run_notes(results, planner, 0.99),
            std::vector<std::string>{"schedules are part of the policy penstock, and not of static, hpa-rate"});
  planner.options.schedule.warm_pool = 1;
  EXPECT_TRUE(run_notes(results, planner, 0.99)[0].starts_with("schedules and the warm pool are part of"));
  planner.schedules.clear();
  EXPECT_TRUE(run_notes(results, planner, 0.99)[0].starts_with("the warm pool is part of"));
  EXPECT_TRUE(run_notes(std::span{results}.first(1), planner, 0.99).empty());
}

}  // namespace
}  // namespace penstock::replay
