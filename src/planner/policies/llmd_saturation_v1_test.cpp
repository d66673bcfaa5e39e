// A replica has room for 0.80 of its KV cache and 5 waiting requests; the triggers are a mean room of 0.10 and of 3.
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

Asker saturation() { return Asker("llmd-saturation-v1"); }

TEST(LlmdSaturationV1, RunsEveryFifteenSeconds) {
  EXPECT_EQ(saturation().policy().interval(), std::chrono::seconds{15});
}
TEST(LlmdSaturationV1, AddsOneWhenLittleKvIsLeft) {
  EXPECT_DECISION(saturation().ask(0, pool_of(2, with_kv(0.75))), 3, kSaturated, kNone);  // 0.05 < 0.10
}
TEST(LlmdSaturationV1, AddsOneWhenTheQueueGrows) {
  EXPECT_DECISION(saturation().ask(0, pool_of(2, engine(3))), 3, kSaturated, kNone);  // 5 - 3 = 2 < 3
}
TEST(LlmdSaturationV1, AddsOnlyOneWhenAllAreSaturated) {
  EXPECT_DECISION(saturation().ask(0, pool_of(2, engine(50, 256, 1000))), 3, kSaturated, kNone);
}
TEST(LlmdSaturationV1, SaturatedReplicasAreLeftOutOfTheMean) {
  // The other has 0.5 and 5 left; one alone is too few to shrink by.
  EXPECT_DECISION(saturation().ask(0, pool_of({with_kv(0.85), with_kv(0.3)})), 2, kWithinTolerance, kNone);
}
TEST(LlmdSaturationV1, RemovesOneWhenTheOthersCanTakeItsLoad) {
  // 0.2 · 3 / 2 = 0.3 leaves 0.5.
  EXPECT_DECISION(saturation().ask(0, pool_of(3, with_kv(0.2))), 2, kSpareCapacity, kNone);
}
TEST(LlmdSaturationV1, KeepsAllWhenTheOthersCouldNot) {
  // 0.5 · 2 / 1 = 1.0 leaves -0.2; a queue of 2 would be 4 and leave 1 < 3.
  EXPECT_DECISION(saturation().ask(0, pool_of(2, with_kv(0.5))), 2, kConsolidationRefused, kNone);
  EXPECT_DECISION(saturation().ask(0, pool_of(2, engine(2))), 2, kConsolidationRefused, kNone);
}
TEST(LlmdSaturationV1, NeverRemovesTheLastReplica) {
  EXPECT_DECISION(saturation().ask(0, bounded(pool_of(1, engine(0)), 0, 9)), 1, kWithinTolerance, kNone);
}
TEST(LlmdSaturationV1, ThePeakOfTheLastMinuteCounts) {
  Asker asker = saturation();
  EXPECT_DECISION(asker.ask(0, pool_of(2, with_kv(0.75))), 3, kSaturated, kNone);
  EXPECT_DECISION(asker.ask(45, pool_of(2, with_kv(0.1))), 3, kSaturated, kNone);
  EXPECT_DECISION(asker.ask(60, pool_of(2, with_kv(0.1))), 1, kSpareCapacity, kNone);  // 0.1 · 2 leaves 0.6
}
TEST(LlmdSaturationV1, WaitsForReplicasThatStart) {
  EXPECT_DECISION(saturation().ask(0, with_starting(pool_of(2, with_kv(0.9)), 1)), 3, kScalingInProgress, kNone);
  EXPECT_DECISION(saturation().ask(0, with_starting(pool_of(3, engine(0)), 1)), 4, kScalingInProgress, kNone);
}
TEST(LlmdSaturationV1, WaitsForReplicasThatAreGone) {
  auto pool = pool_of(2, with_kv(0.9));
  pool.target_replicas = 3;
  EXPECT_DECISION(saturation().ask(0, pool), 3, kScalingInProgress, kNone);
}
TEST(LlmdSaturationV1, HoldsUntilEveryReplicaReports) {
  EXPECT_DECISION(saturation().ask(0, without_samples_of_last(pool_of(3, with_kv(0.9)), 1)), 3, kInsufficientData,
                  kNone);
  EXPECT_DECISION(saturation().ask(0, without_samples_of_last(pool_of(3, engine(0)), 3)), 3, kNoData, kNone);
}
TEST(LlmdSaturationV1, HoldsOnSamplesOfAMinuteAgo) {
  EXPECT_DECISION(saturation().ask(600, pool_of(2, with_kv(0.75)), 60), 2, kNoData, kNone);
  EXPECT_DECISION(saturation().ask(600, pool_of(2, with_kv(0.75)), 59), 3, kSaturated, kNone);
}
TEST(LlmdSaturationV1, StaysWithinItsBounds) {
  EXPECT_DECISION(saturation().ask(0, bounded(pool_of(2, with_kv(0.75)), 1, 2)), 2, kSaturated, kMaxReplicas);
  EXPECT_DECISION(saturation().ask(0, bounded(pool_of(3, with_kv(0.2)), 3, 9)), 3, kSpareCapacity, kMinReplicas);
}
TEST(LlmdSaturationV1, EveryPoolIsDecidedSeparatelyByTheSameRule) {
  const auto decision = saturation().ask_all(0, {pool_of(2, with_kv(0.75), signals::Role::kPrefill),
                                                 with_starting(pool_of(3, with_kv(0.2), signals::Role::kDecode), 1)});
  EXPECT_DECISION(decision.pools[0], 3, kSaturated, kNone);
  EXPECT_DECISION(decision.pools[1], 4, kScalingInProgress, kNone);
}

}  // namespace
}  // namespace penstock::planner
