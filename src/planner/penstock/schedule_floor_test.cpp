#include "planner/penstock/schedule_floor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string_view>
#include <vector>

#include "core/random.h"
#include "planner/planner_testing.h"

namespace penstock::planner {
namespace {

using forecast::make_floor;
using signals::Observation;
using signals::PoolObservation;
using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;
using testing::at_s;
using testing::bounded;
using testing::engine;
using testing::pool_of;

constexpr double kHour = 3600.0;

// Runs start at midnight of 1970-01-01, a Thursday, unless told otherwise.
ScheduleOptions office_hours(std::uint32_t replicas, core::Duration lead = seconds{60}) {
  ScheduleOptions options;
  options.floors = {{"", *make_floor("0 8 * * mon-fri", {}, hours{10}, replicas)}};
  options.lead = lead;
  return options;
}

PoolObservation pool_with(std::uint32_t replicas, core::Duration start_up = seconds{120}) {
  PoolObservation pool = bounded(pool_of(replicas, engine(0)), 1, 12);
  pool.start_up = start_up;
  return pool;
}

PoolDecision apply(ScheduleFloor& stage, double now_s, const PoolObservation& pool, std::uint32_t plan,
                   Reason reason = Reason::kCheapestThatKeepsSlo) {
  Observation observation;
  observation.now = at_s(now_s);
  observation.pools = {pool};
  std::vector<PoolDecision> proposals = {{pool.target_replicas, plan, reason, Limit::kNone, {}}};
  stage.apply(observation, proposals);
  return proposals.at(0);
}
PoolDecision hold(ScheduleFloor& stage, double now_s, const PoolObservation& pool,
                  Reason reason = Reason::kInsufficientData) {
  return apply(stage, now_s, pool, pool.target_replicas, reason);
}

TEST(ScheduleFloor, RaisesAPlanWhileTheFloorIsActive) {
  ScheduleFloor stage(office_hours(6));
  EXPECT_DECISION(apply(stage, 7 * kHour, pool_with(2), 2), 2, kCheapestThatKeepsSlo, kNone);
  EXPECT_DECISION(apply(stage, 9 * kHour, pool_with(2), 2), 6, kSchedule, kNone);
  EXPECT_DECISION(apply(stage, 9 * kHour, pool_with(2), 9), 9, kCheapestThatKeepsSlo, kNone);
  EXPECT_DECISION(apply(stage, 18 * kHour, pool_with(6), 2), 2, kCheapestThatKeepsSlo, kNone);
  EXPECT_EQ(sentence(apply(stage, 9 * kHour, pool_with(2), 2)), "planned 2 replicas, scheduled_floor 6 replicas");
}

TEST(ScheduleFloor, StartsReplicasAheadByStartUpTimeAndLead) {
  ScheduleFloor stage(office_hours(6));
  EXPECT_EQ(apply(stage, 8 * kHour - 181.0, pool_with(2), 2).target, 2U);
  EXPECT_EQ(apply(stage, 8 * kHour - 180.0, pool_with(2), 2).target, 6U);
  EXPECT_EQ(apply(stage, 8 * kHour - 181.0, pool_with(2, minutes{5}), 2).target, 6U);
}

TEST(ScheduleFloor, TheCalendarBeginsWithTheRun) {
  ScheduleOptions options = office_hours(6);
  options.unix_start = 9 * 3600;  // 1970-01-01 09:00
  ScheduleFloor stage(options);
  EXPECT_EQ(apply(stage, 0.0, pool_with(2), 2).target, 6U);
  EXPECT_EQ(apply(stage, 9 * kHour, pool_with(2), 2).target, 2U);
  for (const std::int64_t wild : {INT64_MIN, INT64_MAX}) {
    options.unix_start = wild;
    options.lead = core::Duration::max();
    ScheduleFloor survives(options);
    EXPECT_LE(apply(survives, 0.0, pool_with(2, core::Duration::max()), 2).target, 6U);
  }
}

TEST(ScheduleFloor, IsNeverAboveTheMaximum) {
  ScheduleFloor stage(office_hours(40));
  EXPECT_DECISION(apply(stage, 9 * kHour, pool_with(2), 2), 12, kSchedule, kMaxReplicas);
  EXPECT_DECISION(apply(stage, 9 * kHour, pool_with(12), 12), 12, kCheapestThatKeepsSlo, kMaxReplicas);
}

TEST(ScheduleFloor, AppliesToTheNamedPool) {
  ScheduleOptions options;
  options.floors = {{"decode", *make_floor("0 8 * * *", {}, hours{10}, 6)},
                    {"", *make_floor("0 8 * * *", {}, hours{10}, 3)}};
  ScheduleFloor stage(options);
  Observation observation;
  observation.now = at_s(9 * kHour);
  observation.pools = {pool_with(2), pool_with(2)};
  observation.pools[0].name = "prefill";
  observation.pools[1].name = "decode";
  std::vector<PoolDecision> proposals(2, {2, 2, Reason::kCheapestThatKeepsSlo, Limit::kNone, {}});
  stage.apply(observation, proposals);
  EXPECT_EQ(proposals[0].target, 3U);
  EXPECT_EQ(proposals[1].target, 6U);
}

TEST(ScheduleFloor, TheWarmPoolIsBeyondThePlanNotBeyondTheFloor) {
  ScheduleOptions options = office_hours(6);
  options.warm_pool = 2;
  ScheduleFloor stage(options);
  EXPECT_DECISION(apply(stage, 3 * kHour, pool_with(3), 3), 5, kWarmPool, kNone);
  EXPECT_DECISION(apply(stage, 9 * kHour, pool_with(3), 3), 6, kSchedule, kNone);
  const PoolDecision busy = apply(stage, 9 * kHour, pool_with(3), 5);
  EXPECT_DECISION(busy, 7, kWarmPool, kNone);
  EXPECT_EQ(sentence(busy), "planned 5 replicas, scheduled_floor 6 replicas, warm_pool 2 replicas");
  EXPECT_DECISION(apply(stage, 9 * kHour, pool_with(3), 11), 12, kWarmPool, kMaxReplicas);
}

TEST(ScheduleFloor, AHoldKeepsTheLastPlanAndAddsNothingTwice) {
  ScheduleOptions options = office_hours(6);
  options.warm_pool = 2;
  ScheduleFloor stage(options);
  std::uint32_t target = apply(stage, 3 * kHour, pool_with(3), 3).target;
  for (int i = 1; i < 50; ++i) target = hold(stage, 3 * kHour + i, pool_with(target)).target;
  EXPECT_EQ(target, 5U);
  // A plan for what is there is a plan, and so is what it needs beside.
  EXPECT_DECISION(apply(stage, 4 * kHour, pool_with(5), 5), 7, kWarmPool, kNone);
  EXPECT_DECISION(hold(stage, 9 * kHour, pool_with(7)), 7, kWarmPool, kNone);
  EXPECT_DECISION(hold(stage, 18 * kHour, pool_with(10)), 7, kWarmPool, kNone);
  // Where less is there than was planned, a hold is for what is there.
  EXPECT_DECISION(hold(stage, 19 * kHour, pool_with(2)), 4, kWarmPool, kNone);
}

TEST(ScheduleFloor, BeforeTheFirstPlanThereIsNoWarmPool) {
  ScheduleOptions options = office_hours(6);
  options.warm_pool = 2;
  ScheduleFloor stage(options);
  EXPECT_DECISION(hold(stage, 3 * kHour, pool_with(3)), 3, kInsufficientData, kNone);
  EXPECT_DECISION(hold(stage, 9 * kHour, pool_with(3)), 6, kSchedule, kNone);
}

TEST(ScheduleFloor, AnEndedFloorIsReleasedWhileThePolicyHolds) {
  ScheduleFloor stage(office_hours(6));
  EXPECT_DECISION(hold(stage, 3 * kHour, pool_with(2), Reason::kFixed), 2, kFixed, kNone);
  EXPECT_DECISION(hold(stage, 9 * kHour, pool_with(2), Reason::kFixed), 6, kSchedule, kNone);
  EXPECT_DECISION(hold(stage, 17 * kHour, pool_with(6), Reason::kFixed), 6, kSchedule, kNone);
  EXPECT_DECISION(hold(stage, 19 * kHour, pool_with(6), Reason::kFixed), 2, kSchedule, kNone);
  EXPECT_DECISION(hold(stage, 20 * kHour, pool_with(2), Reason::kFixed), 2, kFixed, kNone);
}

TEST(ScheduleFloor, WithoutOptionsNothingChanges) {
  ScheduleFloor stage({});
  EXPECT_DECISION(apply(stage, 0.0, pool_with(2), 30), 30, kCheapestThatKeepsSlo, kNone);
  EXPECT_DECISION(hold(stage, 5.0, pool_with(7)), 7, kInsufficientData, kNone);
}

TEST(ScheduleFloor, ItsReasonsHaveNamesOfTheirOwn) {
  std::set<std::string_view> names;
  for (int reason = 0; reason <= static_cast<int>(Reason::kWarmPool); ++reason)
    EXPECT_TRUE(names.insert(to_string(static_cast<Reason>(reason))).second) << reason;
  EXPECT_TRUE(names.contains("schedule") && names.contains("warm_pool"));
}

// Windows at random, decisions at random moments, plans at random: what was ordered is there when a window begins, and
// for every moment of it.
TEST(ScheduleFloor, FloorsHoldThroughoutTheirWindows) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    core::RandomStream random(seed);
    ScheduleOptions options;
    options.unix_start = static_cast<std::int64_t>(random.below(4'000'000'000));
    options.lead = seconds{10 + random.below(60)};
    options.warm_pool = static_cast<std::uint32_t>(random.below(4));
    for (std::uint64_t i = 0; i <= random.below(3); ++i) {
      const std::string cron = std::to_string(random.below(60)) + " */" + std::to_string(1 + random.below(6)) +
                               " * * " + (random.below(3) == 0 ? "1-5" : "*");
      options.floors.push_back({random.below(3) == 0 ? "another" : "",
                                *make_floor(cron, hours{random.below(5)}, minutes{1 + random.below(200)},
                                            1 + static_cast<std::uint32_t>(random.below(15)))});
    }
    ScheduleFloor stage(options);
    PoolObservation pool = pool_with(3, seconds{random.below(400)});

    struct Order {
      double at_s;
      std::uint32_t target;
    };
    std::vector<Order> orders;
    for (double now = 0.0; now < 30 * kHour; now += random.uniform(0.1, 1.0) * core::to_seconds(options.lead)) {
      const bool holds = random.below(3) == 0;
      const auto plan = holds ? pool.target_replicas : static_cast<std::uint32_t>(random.below(14));
      const PoolDecision decision =
          apply(stage, now, pool, plan, holds ? Reason::kNoData : Reason::kCheapestThatKeepsSlo);
      ASSERT_LE(decision.target, std::max(plan, 12U));
      ASSERT_GE(decision.target, holds ? 0U : std::min(plan + options.warm_pool, std::max(plan, 12U)));
      orders.push_back({now, decision.target});
      pool.target_replicas = decision.target;
    }
    // The minutes that begin a window say for how long; all moments are looked at by the minute.
    const double start_up = core::to_seconds(pool.start_up);
    std::size_t order = 0;
    for (double moment = 2 * kHour; moment < 30 * kHour; moment += 7.0) {
      const auto unix_s = options.unix_start + static_cast<std::int64_t>(moment);
      std::uint32_t floor = 0;
      for (const PoolSchedule& each : options.floors) {
        if (!each.pool.empty()) continue;
        const std::int64_t length = each.floor.length / seconds{1};
        for (std::int64_t start = unix_s - unix_s % 60; start > unix_s - length; start -= 60)
          if (each.floor.starts.matches(start)) floor = std::max(floor, each.floor.replicas);
      }
      // The order in force a start-up time before, and every one since.
      while (order + 1 < orders.size() && orders[order + 1].at_s <= moment - start_up) ++order;
      for (std::size_t i = order; i < orders.size() && orders[i].at_s <= moment; ++i)
        ASSERT_GE(orders[i].target, std::min(floor, 12U)) << "at " << orders[i].at_s << " for " << moment;
    }
  }
}

}  // namespace
}  // namespace penstock::planner
