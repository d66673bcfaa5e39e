#include "planner/penstock/saved_budget.h"

#include <gtest/gtest.h>

#include <vector>

namespace penstock::planner {
namespace {

// Minutes of a hundred requests by objective, of which one may miss.
void run(SavedBudget& budget, int minutes, const std::vector<double>& missed) {
  std::vector<BudgetUse> uses;
  for (const double misses : missed) uses.push_back({100.0, misses, 1.0});
  for (int i = 0; i < minutes; ++i) budget.observe(uses);
}

TEST(SavedBudget, NothingIsSavedBeforeAnyTraffic) {
  SavedBudget budget;
  EXPECT_DOUBLE_EQ(budget.misses(), 1.0);
  budget.observe({});
  EXPECT_DOUBLE_EQ(budget.misses(), 1.0);
}

TEST(SavedBudget, IdleMinutesBeforeAnyTrafficSaveNothing) {
  SavedBudget at_once, after_a_night;
  for (int i = 0; i < 480; ++i) after_a_night.observe({});
  run(at_once, 1, {0.0});
  run(after_a_night, 1, {0.0});
  EXPECT_DOUBLE_EQ(after_a_night.misses(), at_once.misses());
}

TEST(SavedBudget, AnObjectiveWithoutTrafficDecidesForHalfADay) {
  SavedBudget budget;
  std::vector<BudgetUse> uses{{100.0, 0.0, 1.0}, {500.0, 15.0, 5.0}};
  budget.observe(uses);
  uses.pop_back();
  for (int i = 0; i < 720; ++i) budget.observe(uses);
  EXPECT_DOUBLE_EQ(budget.misses(), 1.0);
  budget.observe(uses);
  EXPECT_GT(budget.misses(), 3.0);
}

TEST(SavedBudget, GrowsWithTimeWithoutMisses) {
  SavedBudget budget;
  double before = 1.0;
  for (int hours = 0; hours < 48; ++hours) {
    run(budget, 60, {0.0});
    EXPECT_GT(budget.misses(), before);
    before = budget.misses();
    // As much as the two hours that stand for the time before.
    if (hours == 1) {
      EXPECT_NEAR(before, 2.5, 0.075);
    }
  }
  EXPECT_NEAR(before, 4.0, 0.01);
}

TEST(SavedBudget, MissesBeyondTheBudgetAllowNoFewer) {
  SavedBudget budget;
  run(budget, 600, {1.0});
  EXPECT_DOUBLE_EQ(budget.misses(), 1.0);
  run(budget, 600, {7.0});
  EXPECT_DOUBLE_EQ(budget.misses(), 1.0);
}

TEST(SavedBudget, SettlesWhereTheBudgetIsUsed) {
  // A fleet that misses 0.4 of what it may.
  SavedBudget budget;
  double used = 0.0;
  for (int i = 0; i < 6000; ++i) {
    used = 0.4 * budget.misses();
    run(budget, 1, {used});
  }
  EXPECT_NEAR(used, 8.0 / 11.0, 0.01);  // u = 0.4 (1 + 3 (1 - u))
}

TEST(SavedBudget, IsThatOfTheObjectiveThatHasUsedMost) {
  SavedBudget budget, worse;
  run(budget, 600, {0.0, 0.5});
  run(worse, 600, {0.0, 1.5});
  EXPECT_GT(budget.misses(), 1.5);
  EXPECT_DOUBLE_EQ(worse.misses(), 1.0);
  SavedBudget unused;
  run(unused, 600, {0.0});
  EXPECT_LT(budget.misses(), unused.misses());
}

TEST(SavedBudget, HalfADayIsForgotten) {
  SavedBudget budget;
  run(budget, 720, {5.0});
  run(budget, 2 * 1440, {0.0});
  EXPECT_GT(budget.misses(), 3.25);
}

TEST(SavedBudget, ContinuesFromItsArchive) {
  SavedBudget budget, restored;
  run(budget, 300, {0.3, 0.1});
  core::StateArchive saved;
  budget.archive(saved);
  core::StateArchive read{saved.text()};
  restored.archive(read);
  ASSERT_TRUE(read.finish());
  run(budget, 30, {0.0, 0.9});
  run(restored, 30, {0.0, 0.9});
  EXPECT_DOUBLE_EQ(restored.misses(), budget.misses());
}

}  // namespace
}  // namespace penstock::planner
