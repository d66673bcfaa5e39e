// KV use has a target of 0.5, the queue of a prefill replica one of 10; r is the mean over its target.
#include <gtest/gtest.h>

#include "planner/planner_testing.h"

namespace penstock::planner {
namespace {

using testing::Asker;
using testing::bounded;
using testing::engine;
using testing::pool_of;
using testing::with_kv;
using testing::with_starting;
using testing::without_samples_of_last;

Asker apa() { return Asker("apa"); }

TEST(Apa, RunsEveryTenSeconds) { EXPECT_EQ(apa().policy().interval(), std::chrono::seconds{10}); }
TEST(Apa, GrowsByTheRatioToItsTarget) {
  EXPECT_DECISION(apa().ask(0, pool_of(4, with_kv(0.75))), 6, kLoadAboveTarget, kNone);  // r = 1.5
}
TEST(Apa, HoldsWithinTenPercentOfTheTarget) {
  EXPECT_DECISION(apa().ask(0, pool_of(4, with_kv(0.54))), 4, kWithinTolerance, kNone);
  EXPECT_DECISION(apa().ask(0, pool_of(4, with_kv(0.46))), 4, kWithinTolerance, kNone);
}
TEST(Apa, ShrinksByHalfAtMostOnceFiveMinutesAgree) {
  Asker asker = apa();
  EXPECT_DECISION(asker.ask(0, pool_of(4, with_kv(0.5))), 4, kWithinTolerance, kNone);
  // r = 0.2 from 200 s on: ceil(0.8) = 1, at least floor(4 / 2) = 2; the 4 of 0 s holds until 300 s.
  EXPECT_DECISION(asker.ask(200, pool_of(4, with_kv(0.1))), 4, kStabilized, kCooldown);
  EXPECT_DECISION(asker.ask(299, pool_of(4, with_kv(0.1))), 4, kStabilized, kCooldown);
  EXPECT_DECISION(asker.ask(300, pool_of(4, with_kv(0.1))), 2, kLoadBelowTarget, kShrinkRate);
}
TEST(Apa, DecidesOnTheMeanOfThreeMinutes) {
  Asker asker = apa();
  EXPECT_DECISION(asker.ask(0, pool_of(2, with_kv(0.9))), 4, kLoadAboveTarget, kNone);  // ceil(2 · 1.8)
  // (0.9 + 0.5) / 2 = 0.7: ceil(4 · 1.4 = 5.6).
  EXPECT_DECISION(asker.ask(10, pool_of(4, with_kv(0.5))), 6, kLoadAboveTarget, kNone);
  EXPECT_DECISION(asker.ask(185, pool_of(6, with_kv(0.5))), 6, kWithinTolerance, kNone);  // 0 s is out: 0.5
}
TEST(Apa, PrefillPoolsUseTheirQueue) {
  // 15 waiting each: r = 1.5; full caches do not count.
  EXPECT_DECISION(apa().ask(0, pool_of(4, engine(15, 0, 1000), signals::Role::kPrefill)), 6, kLoadAboveTarget, kNone);
  EXPECT_DECISION(apa().ask(0, pool_of(4, engine(10, 0, 1000), signals::Role::kPrefill)), 4, kWithinTolerance, kNone);
}
TEST(Apa, DecodePoolsUseKvUsage) {
  EXPECT_DECISION(apa().ask(0, pool_of(4, engine(90, 0, 500), signals::Role::kDecode)), 4, kWithinTolerance, kNone);
}
TEST(Apa, AtMostDoublesInAStep) {
  // r = 5: ceil(10), but at most 2 · 2.
  EXPECT_DECISION(apa().ask(0, pool_of(2, engine(50), signals::Role::kPrefill)), 4, kLoadAboveTarget, kGrowthRate);
}
TEST(Apa, StartingReplicasCountAsIdleOnTheWayUp) {
  // r = 1.8: ceil(4 · 1.8) = 8; with two idle ones ceil(2 · 1.8) = 4, what was asked for.
  EXPECT_DECISION(apa().ask(0, with_starting(pool_of(2, with_kv(0.9)), 2)), 4, kWithinTolerance, kNone);
  // r = 2, three ready: ceil(6) of the 8 that it would be.
  EXPECT_DECISION(apa().ask(0, with_starting(pool_of(3, with_kv(1.0)), 1)), 6, kLoadAboveTarget, kNone);
}
TEST(Apa, StartingReplicasCountAsAtTheTargetOnTheWayDown) {
  // r = 0.2: max(ceil(0.8), 4 / 2) = 2; with two at the target ceil(2 · 0.2 + 2) = 3.
  EXPECT_DECISION(apa().ask(0, with_starting(pool_of(2, with_kv(0.1)), 2)), 3, kLoadBelowTarget, kNone);
}
TEST(Apa, ReplicasWithoutTelemetryAreLeftOutOfTheMean) {
  EXPECT_DECISION(apa().ask(0, without_samples_of_last(pool_of(4, with_kv(0.75)), 2)), 6, kLoadAboveTarget, kNone);
}
TEST(Apa, HoldsWithoutTelemetry) {
  Asker asker = apa();
  EXPECT_DECISION(asker.ask(0, without_samples_of_last(pool_of(4, engine(0)), 4)), 4, kNoData, kNone);
  EXPECT_DECISION(asker.ask(600, without_samples_of_last(pool_of(4, engine(0)), 4)), 4, kNoData, kNone);
}
TEST(Apa, HoldsOnSamplesOfFiveMinutesAgo) {
  EXPECT_DECISION(apa().ask(600, pool_of(4, with_kv(0.75)), 300), 4, kNoData, kNone);
  EXPECT_DECISION(apa().ask(600, pool_of(4, with_kv(0.75)), 299), 6, kLoadAboveTarget, kNone);
}
TEST(Apa, StaysWithinItsBounds) {
  EXPECT_DECISION(apa().ask(0, bounded(pool_of(4, with_kv(0.75)), 1, 5)), 5, kLoadAboveTarget, kMaxReplicas);
  EXPECT_DECISION(apa().ask(0, bounded(pool_of(4, with_kv(0.1)), 3, 5)), 3, kLoadBelowTarget, kMinReplicas);
}

}  // namespace
}  // namespace penstock::planner
