// One replica was load-tested at 1000 prompt and 200 output tokens per second.
#include <gtest/gtest.h>

#include "planner/planner_testing.h"

namespace penstock::planner {
namespace {

using signals::Role;
using testing::Asker;
using testing::bounded;
using testing::engine;
using testing::pool_of;
using testing::with_kv;
using testing::with_starting;
using testing::with_token_rates;

PolicyContext context() {
  PolicyContext context;
  context.capacity.input_tokens_per_s = 1000.0;
  context.capacity.output_tokens_per_s = 200.0;
  return context;
}
Asker floor_of(const char* name = "hourly-floor") { return Asker(name, context()); }

double evidence_of(const PoolDecision& decision, std::string_view name) {
  for (const Evidence& evidence : decision.evidence)
    if (evidence.name == name) return evidence.value;
  ADD_FAILURE() << "no evidence " << name;
  return 0.0;
}

// Asks every 15 s from `from` to before `until`, and carries the target. Returns the last decision.
PoolDecision ask_for(Asker& asker, double from, double until, std::uint32_t& replicas, std::uint64_t input_per_s) {
  PoolDecision decision;
  for (double now = from; now < until; now += 15) {
    decision = asker.ask(now, with_token_rates(pool_of(replicas, engine(0)), input_per_s, 0));
    replicas = decision.target;
  }
  return decision;
}

TEST(HourlyFloor, RunsEveryFifteenSeconds) { EXPECT_EQ(floor_of().policy().interval(), std::chrono::seconds{15}); }
TEST(HourlyFloor, GrowsByOneAboveSeventyPercent) {
  // 1,500 / 1,000 / 2 = 75 %.
  EXPECT_DECISION(floor_of().ask(60, with_token_rates(pool_of(2, engine(0)), 1500, 0)), 3, kLoadAboveTarget, kNone);
  // Output: 290 / 200 / 2 = 72.5 %.
  EXPECT_DECISION(floor_of().ask(60, with_token_rates(pool_of(2, engine(0)), 0, 290)), 3, kLoadAboveTarget, kNone);
  EXPECT_DECISION(floor_of().ask(60, with_token_rates(pool_of(2, engine(0)), 1390, 0)), 2, kWithinTolerance, kNone);
}
TEST(HourlyFloor, GrowsOnKvUse) {
  EXPECT_DECISION(floor_of().ask(60, with_token_rates(pool_of(2, with_kv(0.8)), 100, 0)), 3, kLoadAboveTarget, kNone);
}
TEST(HourlyFloor, StartingReplicasCountAsIdle) {
  // 1.5 replicas of load, and 2 ready and 1 starting: 50 %.
  EXPECT_DECISION(floor_of().ask(60, with_starting(with_token_rates(pool_of(2, with_kv(0.7)), 1500, 0), 1)), 3,
                  kWithinTolerance, kNone);
}
TEST(HourlyFloor, ShrinksByOneBelowThirtyPercent) {
  EXPECT_DECISION(floor_of().ask(60, with_token_rates(pool_of(4, engine(0)), 1100, 0)), 3, kLoadBelowTarget, kNone);
  EXPECT_DECISION(floor_of().ask(60, with_token_rates(pool_of(4, engine(0)), 1300, 0)), 4, kWithinTolerance, kNone);
}
TEST(HourlyFloor, HoldsTheForecastOfTheHourWithHeadroom) {
  Asker asker = floor_of();
  std::uint32_t replicas = 9;
  // A constant load of 5 replicas: its forecast is 5, the floor ceil(1.1 · 5 = 5.5) = 6.
  (void)ask_for(asker, 0, 3600, replicas, 5000);
  const PoolDecision planned = ask_for(asker, 3600, 3660, replicas, 5000);
  EXPECT_NEAR(evidence_of(planned, "forecast_load"), 5.0, 0.1);
  EXPECT_EQ(evidence_of(planned, "floor"), 6.0);
  // The load ends. Without the floor it would shrink to 1.
  (void)ask_for(asker, 3660, 7200, replicas, 0);
  EXPECT_EQ(replicas, 6U);
  // The next hour has another forecast.
  (void)ask_for(asker, 7200, 9000, replicas, 0);
  EXPECT_LT(replicas, 6U);
}
TEST(HourlyFloor, RaisesTheFleetToTheFloorAtOnce) {
  Asker asker = floor_of("hourly-floor:headroom=1:up=3");
  std::uint32_t replicas = 2;
  (void)ask_for(asker, 0, 3600, replicas, 3000);
  EXPECT_EQ(replicas, 6U);  // 3 · 2, as soon as there is a forecast; by utilisation it would never grow.
}
TEST(HourlyFloor, PoolsOfOneStageHaveTheLoadOfThatStage) {
  const auto prefill = with_token_rates(pool_of(2, engine(0), Role::kPrefill), 1000, 9000);
  EXPECT_DECISION(floor_of().ask(60, prefill), 2, kWithinTolerance, kNone);
  const auto decode = with_token_rates(pool_of(2, engine(0), Role::kDecode), 90'000, 200);
  EXPECT_DECISION(floor_of().ask(60, decode), 2, kWithinTolerance, kNone);
}
TEST(HourlyFloor, SettingsMoveItsThresholds) {
  const auto pool = with_token_rates(pool_of(4, engine(0)), 2000, 0);  // 50 %.
  EXPECT_EQ(floor_of("hourly-floor").ask(60, pool).target, 4U);
  EXPECT_EQ(floor_of("hourly-floor:up=0.45").ask(60, pool).target, 5U);
  EXPECT_EQ(floor_of("hourly-floor:down=0.6").ask(60, pool).target, 3U);
}
TEST(HourlyFloor, StaysWithinItsBounds) {
  EXPECT_DECISION(floor_of().ask(60, bounded(with_token_rates(pool_of(2, engine(0)), 9000, 0), 1, 2)), 2,
                  kLoadAboveTarget, kMaxReplicas);
}

}  // namespace
}  // namespace penstock::planner
