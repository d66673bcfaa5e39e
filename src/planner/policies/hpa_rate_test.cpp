// One replica was load-tested at 2.5 requests per second, so the target is 0.8 · 2.5 = 2 per replica.
#include <gtest/gtest.h>

#include "planner/planner_testing.h"

namespace penstock::planner {
namespace {

using testing::Asker;
using testing::bounded;
using testing::engine;
using testing::pool_of;
using testing::with_arrivals;

PolicyContext context() {
  PolicyContext context;
  context.capacity.requests_per_s = 2.5;
  return context;
}
signals::PoolObservation pool(std::uint32_t replicas, std::uint64_t arrivals_in_a_minute) {
  return with_arrivals(pool_of(replicas, engine(0)), arrivals_in_a_minute);
}

TEST(HpaRate, RunsEveryFifteenSeconds) {
  EXPECT_EQ(Asker("hpa-rate", context()).policy().interval(), std::chrono::seconds{15});
}
TEST(HpaRate, HoldsWithinTenPercentOfTheTarget) {
  // 3 replicas carry 6 per second; 390 a minute are 6.5, ratio 1.083.
  EXPECT_DECISION(Asker("hpa-rate", context()).ask(60, pool(3, 390)), 3, kWithinTolerance, kNone);
}
TEST(HpaRate, GrowsToTheRateOverTheTarget) {
  // 420 a minute are 7, ratio 1.167: ceil(7 / 2) = 4.
  EXPECT_DECISION(Asker("hpa-rate", context()).ask(60, pool(3, 420)), 4, kLoadAboveTarget, kNone);
}
TEST(HpaRate, GrowsAtMostByFourFromThreeInOneStep) {
  // 6000 a minute are 100 per second: 50 replicas, but max(2 · 3, 3 + 4) = 7 now.
  EXPECT_DECISION(Asker("hpa-rate", context()).ask(60, pool(3, 6000)), 7, kLoadAboveTarget, kGrowthRate);
}
TEST(HpaRate, ShrinksOnlyAfterFiveMinutesOfLowRate) {
  Asker hpa("hpa-rate", context());
  for (double now = 0; now < 300; now += 15)  // 120 a minute are 2 per second: 1 replica would do
    EXPECT_DECISION(hpa.ask(now, pool(3, 120)), 3, kStabilized, kStabilization);
  EXPECT_DECISION(hpa.ask(300, pool(3, 120)), 1, kLoadBelowTarget, kNone);
}
TEST(HpaRate, StaysAboveTheMinimumAndBelowTheMaximum) {
  EXPECT_DECISION(Asker("hpa-rate", context()).ask(60, bounded(pool(3, 6000), 1, 5)), 5, kLoadAboveTarget,
                  kMaxReplicas);
  Asker hpa("hpa-rate", context());
  (void)hpa.ask(0, bounded(pool(3, 0), 2, 5));
  EXPECT_DECISION(hpa.ask(300, bounded(pool(3, 0), 2, 5)), 2, kLoadBelowTarget, kMinReplicas);
}
TEST(HpaRate, CountsStartingReplicasAsThere) {
  // 1 ready and 3 starting: 480 a minute are 8 per second, exactly what 4 carry.
  EXPECT_DECISION(Asker("hpa-rate", context()).ask(60, testing::with_starting(pool(1, 480), 3)), 4, kWithinTolerance,
                  kNone);
}
TEST(HpaRate, HoldsBeforeAnyWindowOfTraffic) {
  EXPECT_DECISION(Asker("hpa-rate", context()).ask(0, pool_of(3, engine(0))), 3, kNoData, kNone);
}
TEST(HpaRate, ReportsTheRateAndTheTarget) {
  EXPECT_EQ(sentence(Asker("hpa-rate", context()).ask(60, pool(3, 420))),
            "request_rate 7 1/s, target_per_replica 2 1/s, provisioned 3 replicas");
}

}  // namespace
}  // namespace penstock::planner
