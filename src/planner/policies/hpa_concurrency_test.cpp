// One replica was load-tested with 10 requests in flight, so the target is 0.8 · 10 = 8 per replica.
#include <gtest/gtest.h>

#include "planner/planner_testing.h"

namespace penstock::planner {
namespace {

using testing::Asker;
using testing::bounded;
using testing::engine;
using testing::pool_of;
using testing::with_starting;
using testing::without_samples_of_last;

Asker hpa() {
  PolicyContext context;
  context.capacity.concurrency = 10.0;
  return Asker("hpa-concurrency", context);
}

TEST(HpaConcurrency, HoldsWithinTenPercentOfTheTarget) {
  // 8 and 9: 17 / (8 · 2) = 1.0625.
  EXPECT_DECISION(hpa().ask(0, pool_of({engine(1, 7), engine(0, 9)})), 2, kWithinTolerance, kNone);
}
TEST(HpaConcurrency, QueuedAndRunningRequestsCountAlike) {
  // 12 + 8 each: ratio 2.5, ceil(2.5 · 2) = 5.
  EXPECT_DECISION(hpa().ask(0, pool_of(2, engine(12, 8))), 5, kLoadAboveTarget, kNone);
}
TEST(HpaConcurrency, ShrinksOnceFiveMinutesAgree) {
  Asker asker = hpa();
  // 2 each of 4: ratio 0.25, one replica would do.
  EXPECT_DECISION(asker.ask(0, pool_of(4, engine(0, 2))), 4, kStabilized, kStabilization);
  EXPECT_DECISION(asker.ask(285, pool_of(4, engine(0, 2))), 4, kStabilized, kStabilization);
  EXPECT_DECISION(asker.ask(300, pool_of(4, engine(0, 2))), 1, kLoadBelowTarget, kNone);
}
TEST(HpaConcurrency, StartingReplicasCountAsIdleOnTheWayUp) {
  // 2 at 16, 2 starting: 32 / (8 · 4) = 1, so the two that start suffice.
  EXPECT_DECISION(hpa().ask(0, with_starting(pool_of(2, engine(8, 8)), 2)), 4, kWithinTolerance, kNone);
}
TEST(HpaConcurrency, ReplicasWithoutTelemetryCountAsAtTheTargetForScaleDown) {
  Asker asker = hpa();
  const auto pool = without_samples_of_last(pool_of(4, engine(0, 0)), 2);
  (void)asker.ask(0, pool);
  // Two idle ones alone would go to 0; with two at 8 the ratio is 16 / 32 = 0.5: ceil(0.5 · 4) = 2.
  EXPECT_DECISION(asker.ask(300, pool), 2, kLoadBelowTarget, kNone);
}
TEST(HpaConcurrency, HoldsWithoutTelemetry) {
  Asker asker = hpa();
  (void)asker.ask(0, without_samples_of_last(pool_of(4, engine(0)), 4));
  EXPECT_DECISION(asker.ask(600, without_samples_of_last(pool_of(4, engine(0)), 4)), 4, kNoData, kNone);
}
TEST(HpaConcurrency, HoldsOnSamplesOfFiveMinutesAgo) {
  EXPECT_DECISION(hpa().ask(600, pool_of(2, engine(50, 50)), 300), 2, kNoData, kNone);
  EXPECT_DECISION(hpa().ask(600, pool_of(2, engine(12, 8)), 299), 5, kLoadAboveTarget, kNone);
}
TEST(HpaConcurrency, StaysWithinItsBounds) {
  EXPECT_DECISION(hpa().ask(0, bounded(pool_of(2, engine(12, 8)), 1, 4)), 4, kLoadAboveTarget, kMaxReplicas);
  Asker asker = hpa();
  (void)asker.ask(0, bounded(pool_of(4, engine(0)), 2, 9));
  EXPECT_DECISION(asker.ask(300, bounded(pool_of(4, engine(0)), 2, 9)), 2, kLoadBelowTarget, kMinReplicas);
}
TEST(HpaConcurrency, DrainingReplicasAreNotCounted) {
  auto pool = pool_of(2, engine(0, 8));
  pool.replicas.push_back({77, signals::ReplicaState::kDraining, {}, engine(0, 200)});
  pool.draining = 1;
  EXPECT_DECISION(hpa().ask(0, pool), 2, kWithinTolerance, kNone);
}

}  // namespace
}  // namespace penstock::planner
