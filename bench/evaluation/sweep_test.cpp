#include "evaluation/sweep.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

namespace penstock::evaluation {
namespace {

// Runs of a policy whose misses are a power of its setting.
struct Made {
  std::map<double, Point> runs;
  core::Result<void> sweep_it(const Axis& axis, const SweepPlan& plan, const std::function<Point(double)>& law) {
    return sweep(axis, plan, [&](double setting) -> core::Result<Point> {
      EXPECT_FALSE(runs.contains(setting)) << setting;
      return runs[setting] = law(setting);
    });
  }
};

Point by_load(double utilisation) {
  return {1.0 - std::min(1.0, 0.05 * std::pow(utilisation, 4.0)), 10.0 / utilisation};
}

bool encloses(const std::map<double, Point>& runs, double attainment, double apart) {
  const Point* below = nullptr;
  const Point* above = nullptr;
  for (const auto& [setting, point] : runs) {
    if (point.attainment >= attainment && (above == nullptr || point.gpu_hours < above->gpu_hours)) above = &point;
    if (point.attainment < attainment && (below == nullptr || point.gpu_hours > below->gpu_hours)) below = &point;
  }
  return below != nullptr && above != nullptr && above->gpu_hours - below->gpu_hours <= apart * above->gpu_hours;
}

TEST(Sweep, EnclosesTheWantedAttainmentWithFewRuns) {
  Made made;
  const Axis axis{AxisKind::kLoad, 0.1, 2.5};
  ASSERT_TRUE(made.sweep_it(axis, {{0.8}, {0.99}, 8, 0.04}, by_load));
  EXPECT_TRUE(encloses(made.runs, 0.99, 0.15));
  EXPECT_LE(made.runs.size(), 8U);
  EXPECT_TRUE(made.runs.contains(0.8));
}

TEST(Sweep, WantsTheFirstAttainmentMost) {
  Made made;
  ASSERT_TRUE(made.sweep_it({AxisKind::kLoad, 0.1, 2.5}, {{0.8}, {0.99, 0.95, 0.98, 0.995}, 5, 0.04}, by_load));
  EXPECT_EQ(made.runs.size(), 5U);
  EXPECT_TRUE(encloses(made.runs, 0.99, 0.3));
}

TEST(Sweep, StopsWhereNoSettingReachesTheAttainment) {
  Made made;
  const auto hopeless = [](double utilisation) { return Point{0.9 - 0.1 * utilisation, 1.0}; };
  ASSERT_TRUE(made.sweep_it({AxisKind::kLoad, 0.1, 2.5}, {{0.8}, {0.99}, 50, 0.04}, hopeless));
  EXPECT_LE(made.runs.size(), 8U);
  EXPECT_LE(made.runs.begin()->first, 0.105);  // The most generous setting was tried.
}

TEST(Sweep, RunsEveryFixedFleetAroundTheAttainmentOnce) {
  Made made;
  const auto fleets = [](double replicas) { return Point{replicas >= 7.0 ? 0.995 : 0.1 * replicas, replicas}; };
  ASSERT_TRUE(made.sweep_it({AxisKind::kCount, 1.0, 32.0}, {{3.0}, {0.99}, 12, 0.0}, fleets));
  EXPECT_TRUE(made.runs.contains(6.0));
  EXPECT_TRUE(made.runs.contains(7.0));
  for (const auto& [replicas, point] : made.runs) EXPECT_EQ(replicas, std::round(replicas));
}

TEST(Sweep, AGoalIsRaisedUntilItIsDelivered) {
  Made made;
  // Half of the misses that were allowed more than planned.
  const auto under = [](double goal) { return Point{1.0 - 1.5 * (1.0 - goal), 1.0 / (1.0 - goal)}; };
  ASSERT_TRUE(made.sweep_it({AxisKind::kShare, 0.8, 0.9995}, {{0.99, 0.95}, {0.99}, 6, 0.04}, under));
  EXPECT_TRUE(encloses(made.runs, 0.99, 0.35));
  EXPECT_TRUE(made.runs.contains(0.95));
}

TEST(Sweep, AnErrorOfARunIsTheResult) {
  const auto failing = [](double) -> core::Result<Point> { return tl::make_unexpected(core::Error{}); };
  EXPECT_FALSE(sweep({AxisKind::kLoad, 0.1, 2.0}, {{0.8}, {0.99}, 3, 0.04}, failing));
}

TEST(Axis, GenerosityGrowsWithWhatIsKept) {
  const Axis load{AxisKind::kLoad, 0.1, 2.5}, goal{AxisKind::kShare, 0.8, 0.9995}, count{AxisKind::kCount, 1.0, 32.0};
  EXPECT_NEAR(generosity(load, 0.1), 1.0, 1e-12);
  EXPECT_NEAR(generosity(load, 2.5), 0.0, 1e-12);
  EXPECT_NEAR(generosity(goal, 0.9995), 1.0, 1e-9);
  EXPECT_NEAR(generosity(count, 32.0), 1.0, 1e-12);
  for (const double setting : {0.15, 0.82, 2.4})
    EXPECT_NEAR(setting_at(load, generosity(load, setting)), setting, 1e-9);
  EXPECT_NEAR(setting_at(goal, generosity(goal, 0.987)), 0.987, 1e-9);
  EXPECT_EQ(setting_at(count, generosity(count, 7.0)), 7.0);
  const Axis headroom{AxisKind::kHeadroom, -0.5, 3.0};
  EXPECT_NEAR(generosity(headroom, 3.0), 1.0, 1e-12);
  for (const double setting : {-0.25, 0.0, 1.5})
    EXPECT_NEAR(setting_at(headroom, generosity(headroom, setting)), setting, 1e-9);
}

}  // namespace
}  // namespace penstock::evaluation
