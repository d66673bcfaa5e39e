// One replica was load-tested with 10 requests in flight, so the target is 0.7 · 10 = 7 per replica.
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

PolicyContext context() {
  PolicyContext context;
  context.capacity.concurrency = 10.0;
  return context;
}
Asker kpa() { return Asker("kpa", context()); }

// Past the panic that more than one ready replica start in: at 62 s, four replicas at the target, and nothing older.
Asker settled() {
  Asker asker = kpa();
  (void)asker.ask(0, pool_of(4, engine(0, 7)));
  EXPECT_DECISION(asker.ask(62, pool_of(4, engine(0, 7))), 4, kWithinTolerance, kNone);  // ceil(28 / 7)
  return asker;
}
signals::PoolObservation unheard(std::uint32_t replicas) {
  return without_samples_of_last(pool_of(replicas, engine(0)), replicas);
}

TEST(Kpa, RunsEveryTwoSeconds) { EXPECT_EQ(kpa().policy().interval(), std::chrono::seconds{2}); }
TEST(Kpa, GrowsOnTheStableWindow) {
  Asker asker = settled();
  // 28 and 4 · 10 = 40: mean 34, ceil(4.86) = 5; 5 / 4 is no panic.
  EXPECT_DECISION(asker.ask(64, pool_of(4, engine(3, 7))), 5, kLoadAboveTarget, kNone);
}
TEST(Kpa, ShrinksOnTheStableWindow) {
  Asker asker = settled();
  // 28 and 4: mean 16, ceil(2.29) = 3.
  EXPECT_DECISION(asker.ask(64, pool_of(4, engine(0, 1))), 3, kLoadBelowTarget, kNone);
}
TEST(Kpa, HoldsWhileTheRoundedProposalIsTheSize) {
  Asker asker = settled();
  // 28 and 24: mean 26, ceil(3.71) = 4.
  EXPECT_DECISION(asker.ask(64, pool_of(4, engine(0, 6))), 4, kWithinTolerance, kNone);
}
TEST(Kpa, PanicsWhenTheShortWindowNeedsTwiceTheReplicas) {
  Asker asker = settled();
  // 28 and 80: mean 54 in both windows, ceil(7.71) = 8 = 2 · 4.
  EXPECT_DECISION(asker.ask(64, pool_of(4, engine(13, 7))), 8, kPanic, kNone);
}
TEST(Kpa, NeverShrinksInAPanicAndByHalfAtMostAfterIt) {
  Asker asker = settled();
  (void)asker.ask(64, pool_of(4, engine(13, 7)));
  // 80 s: stable (28 + 80 + 8) / 3 = 38.7 asks for 6, panic 8 / 7 for 2.
  EXPECT_DECISION(asker.ask(80, pool_of(8, engine(0, 1))), 8, kPanic, kNone);
  EXPECT_DECISION(asker.ask(124, pool_of(8, engine(0, 1))), 8, kPanic, kNone);  // 60 s after 64 s, not more
  // 126 s: stable 8 / 7 asks for 2, but at most half of 8 go.
  EXPECT_DECISION(asker.ask(126, pool_of(8, engine(0, 1))), 4, kLoadBelowTarget, kShrinkRate);
}
TEST(Kpa, StartsInAPanicThatKeepsWhatIsReady) {
  Asker asker = kpa();
  EXPECT_DECISION(asker.ask(0, pool_of(4, engine(0, 1))), 4, kPanic, kNone);
  EXPECT_DECISION(asker.ask(60, pool_of(4, engine(0, 1))), 4, kPanic, kNone);
  EXPECT_DECISION(asker.ask(62, pool_of(4, engine(0, 1))), 2, kLoadBelowTarget, kShrinkRate);  // 4 / 7 asks for 1
}
TEST(Kpa, StartsCalmWithOneReplica) {
  EXPECT_DECISION(kpa().ask(0, pool_of(1, engine(0, 7))), 1, kWithinTolerance, kNone);
}
TEST(Kpa, StartingReplicasAreNotRequestedAgain) {
  // 28 in flight on the one that is ready: ceil(28 / 7) = 4, and 4 were asked for.
  EXPECT_DECISION(kpa().ask(0, with_starting(pool_of(1, engine(21, 7)), 3)), 4, kPanic, kNone);
}
TEST(Kpa, RequestsInFrontOfThePoolCount) {
  auto pool = with_starting(pool_of({}), 1);
  pool.unrouted_requests = 15;
  EXPECT_DECISION(kpa().ask(0, pool), 3, kPanic, kNone);  // ceil(15 / 7) of no replica
}
TEST(Kpa, ReplicasWithoutTelemetryCountAsAverage) {
  Asker asker = settled();
  // Mean 10 of the two reporting replicas, times 4: 40, as above.
  EXPECT_DECISION(asker.ask(64, without_samples_of_last(pool_of(4, engine(3, 7)), 2)), 5, kLoadAboveTarget, kNone);
}
TEST(Kpa, HoldsAfterAMinuteWithoutTelemetry) {
  Asker asker = settled();
  EXPECT_DECISION(asker.ask(122, unheard(4)), 4, kNoData, kNone);
  EXPECT_DECISION(kpa().ask(0, unheard(4)), 4, kNoData, kNone);
}
TEST(Kpa, DecidesOnItsWindowWhileThatHoldsAValue) {
  Asker asker = settled();
  (void)asker.ask(64, pool_of(4, engine(0, 1)));
  EXPECT_DECISION(asker.ask(66, unheard(4)), 3, kLoadBelowTarget, kNone);         // 28 and 4, as at 64 s
  EXPECT_DECISION(asker.ask(122, unheard(4)), 2, kLoadBelowTarget, kShrinkRate);  // 4 alone asks for 1
}
TEST(Kpa, HoldsOnSamplesOfFiveMinutesAgo) {
  EXPECT_DECISION(kpa().ask(600, pool_of(1, engine(50)), 300), 1, kNoData, kNone);
  EXPECT_DECISION(kpa().ask(600, pool_of(1, engine(50)), 299), 8, kPanic, kNone);  // ceil(50 / 7)
}
TEST(Kpa, StaysWithinItsBounds) {
  EXPECT_DECISION(settled().ask(64, bounded(pool_of(4, engine(13, 7)), 1, 6)), 6, kPanic, kMaxReplicas);
  EXPECT_DECISION(settled().ask(124, bounded(pool_of(4, engine(0)), 3, 6)), 3, kLoadBelowTarget, kMinReplicas);
}
}  // namespace
}  // namespace penstock::planner
