#include "simulation/schedule_moves.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "core/random.h"

namespace penstock::simulation {
namespace {

constexpr std::size_t kWindows = 40;

double cost_of(const Schedule& schedule, const ScheduleLimits& limits) {
  double cost = 0.0;
  std::uint32_t before = limits.initial;
  for (const std::uint32_t replicas : schedule.replicas) {
    cost += replicas * core::to_seconds(schedule.window);
    if (replicas > before) cost += (replicas - before) * limits.growth_s();
    before = replicas;
  }
  return cost;
}

MoveContext context_of() {
  MoveContext context;
  MissTable table{core::kMinute, 1, std::vector<std::vector<double>>(kWindows, {20.0, 10.0, 5.0, 2.0, 1.0})};
  context.tables = {table};
  context.limits = {{2, std::chrono::seconds{120}, std::chrono::seconds{20}}};
  context.prices = {1.0};
  context.price_s = 10.0;
  return context;
}

SchedulePlan random_plan(core::RandomStream& random) {
  SchedulePlan plan{{{core::kMinute, {}}}, {}, 0.0};
  while (plan.misses.size() < kWindows) {
    const auto size = static_cast<std::uint32_t>(1 + random.below(5));
    for (std::uint64_t i = 0; i < 1 + random.below(9) && plan.misses.size() < kWindows; ++i) {
      plan.schedules[0].replicas.push_back(plan.misses.size() < 3 ? 2 : size);
      plan.misses.push_back(static_cast<double>(random.below(20)));
      plan.total += plan.misses.back();
    }
  }
  return plan;
}

TEST(ScheduleMoves, TheirCostIsThatOfTheWholeSchedule) {
  const MoveContext context = context_of();
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    core::RandomStream random{seed};
    const SchedulePlan plan = random_plan(random);
    std::set<Move> tried;
    const std::vector<Move> moves = propose(plan, context, tried);
    EXPECT_FALSE(moves.empty());
    for (const Move& move : moves) {
      std::vector<Schedule> changed = plan.schedules;
      apply(move, changed);
      EXPECT_NEAR(cost_of(move, plan.schedules, context),
                  cost_of(changed[0], context.limits[0]) - cost_of(plan.schedules[0], context.limits[0]), 1e-9);
    }
  }
}

TEST(ScheduleMoves, OfOneTrialDoNotAffectEachOtherAndAreNotRepeated) {
  const MoveContext context = context_of();
  core::RandomStream random{5};
  const SchedulePlan plan = random_plan(random);
  std::set<Move> tried, seen;
  for (;;) {
    const std::vector<Move> moves = propose(plan, context, tried);
    if (moves.empty()) break;
    std::vector<int> touched(kWindows);
    for (const Move& move : moves) {
      EXPECT_TRUE(seen.insert(move).second);
      EXPECT_NE(move.from, move.to);
      // No replica is ready before the first start-up time is over.
      if (move.begin < 2) {
        EXPECT_LE(move.to, std::max(move.from, 2U));
      }
      for (std::size_t window = move.begin == 0 ? 0 : move.begin - 1;
           window < std::min(kWindows, move.end + context.reach); ++window)
        EXPECT_EQ(touched[window]++, 0);
    }
  }
  EXPECT_GT(seen.size(), 20U);
}

TEST(ScheduleMoves, ThoseThatSaveMostForTheirMissesAreAdopted) {
  const MoveContext context = context_of();
  SchedulePlan plan{
      {{core::kMinute, std::vector<std::uint32_t>(kWindows, 3)}}, std::vector<double>(kWindows, 1.0), 40.0};
  // Three windows less: 180 s saved each, less 140 s for the start-up after them.
  const std::vector<Move> moves{{0, 5, 8, 3, 2}, {0, 15, 20, 3, 2}, {0, 25, 26, 3, 4}};
  std::vector<double> seen = plan.misses;
  seen[6] = 9.0;   // Costs 8 misses and saves 40 s.
  seen[16] = 5.0;  // Costs 4 misses and saves 160 s.
  seen[25] = 0.0;  // Saves 1 miss and costs 200 s.
  const auto adopted = [&](double allowed) {
    SchedulePlan made = plan;
    adopt(moves, seen, allowed, context, made);
    return std::vector{made.schedules[0].replicas[6], made.schedules[0].replicas[16], made.schedules[0].replicas[25]};
  };
  EXPECT_EQ(adopted(100.0), (std::vector<std::uint32_t>{2, 2, 3}));
  EXPECT_EQ(adopted(45.0), (std::vector<std::uint32_t>{3, 2, 3}));
  EXPECT_EQ(adopted(40.0), (std::vector<std::uint32_t>{3, 3, 3}));
  EXPECT_EQ(adopted(39.0), (std::vector<std::uint32_t>{3, 3, 4}));
  EXPECT_EQ(adopted(0.0), (std::vector<std::uint32_t>{3, 3, 4}));

  SchedulePlan made = plan;
  adopt(moves, seen, 45.0, context, made);
  EXPECT_EQ(made.total, 44.0);
  EXPECT_EQ(made.misses[16], 5.0);
  EXPECT_EQ(made.misses[6], 1.0);
}

}  // namespace
}  // namespace penstock::simulation
