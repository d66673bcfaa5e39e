// Engines have 1000 KV tokens, so k1 = 800. Requests have I = 100 prompt and O = 50 output tokens unless a test says
// otherwise: with 256 sequences k2 = 256 · (100 + 25) is far above, and the capacity of a replica is 800.
#include <gtest/gtest.h>

#include "planner/planner_testing.h"

namespace penstock::planner {
namespace {

using testing::Asker;
using testing::bounded;
using testing::engine;
using testing::pool_of;
using testing::with_kv;
using testing::with_shape;
using testing::with_starting;
using testing::without_samples_of_last;

Asker saturation(std::uint64_t max_sequences = 256) {
  PolicyContext context;
  context.max_sequences = max_sequences;
  return Asker("llmd-saturation-v2", context);
}
signals::PoolObservation pool(std::uint32_t replicas, const signals::EngineSample& sample,
                              signals::Role role = signals::Role::kAggregated) {
  return with_shape(pool_of(replicas, sample, role), 100, 50);
}

TEST(LlmdSaturationV2, RunsEveryFifteenSeconds) {
  EXPECT_EQ(saturation().policy().interval(), std::chrono::seconds{15});
}
TEST(LlmdSaturationV2, GrowsByTheMissingCapacity) {
  // 1800 / 0.85 - 1600 = 517.6: ceil(0.65) = 1.
  EXPECT_DECISION(saturation().ask(0, pool(2, with_kv(0.9))), 3, kSaturated, kNone);
}
TEST(LlmdSaturationV2, QueuedRequestsCountWithTheirPrompts) {
  // 2 · (500 + 4 · 100) = 1800, as above.
  EXPECT_DECISION(saturation().ask(0, pool(2, engine(4, 0, 500))), 3, kSaturated, kNone);
}
TEST(LlmdSaturationV2, RequestsInFrontOfThePoolCountWithPromptsAndOutputs) {
  auto waiting = pool(2, engine(0));
  waiting.unrouted_requests = 12;
  // 12 · (100 + 50) = 1800, as above.
  EXPECT_DECISION(saturation().ask(0, waiting), 3, kSaturated, kNone);
}
TEST(LlmdSaturationV2, InFrontOfPrefillPoolsOnlyPromptsCount) {
  auto waiting = pool(2, engine(0), signals::Role::kPrefill);
  waiting.unrouted_requests = 12;
  // 12 · 100 = 1200: 1411.8 < 1600 and 1600 < 1714.3.
  EXPECT_DECISION(saturation().ask(0, waiting), 2, kWithinTolerance, kNone);
}
TEST(LlmdSaturationV2, HoldsBetweenItsThresholds) {
  // 1200 / 0.85 = 1411.8 < 1600 and 1600 < 1200 / 0.70 = 1714.3.
  EXPECT_DECISION(saturation().ask(0, pool(2, with_kv(0.6))), 2, kWithinTolerance, kNone);
}
TEST(LlmdSaturationV2, ShrinksByTheSpareCapacity) {
  // 3200 - 1200 / 0.70 = 1485.7: floor(1.86) = 1.
  EXPECT_DECISION(saturation().ask(0, pool(4, with_kv(0.3))), 3, kSpareCapacity, kNone);
}
TEST(LlmdSaturationV2, AFullQueueShowsTheCapacityOfAReplica) {
  Asker asker = saturation();
  // k2 = 400 in use: 400 + 6 · 100 = 1000; 1000 / 0.85 - 400 = 776.5: ceil(1.94) = 2.
  EXPECT_DECISION(asker.ask(0, pool(1, engine(6, 0, 400))), 3, kSaturated, kNone);
  // Later it is remembered: 3 · 400 - 400 / 0.70 = 628.6, floor(1.57) = 1; at 800 it would be 2.
  EXPECT_DECISION(asker.ask(75, pool(3, engine(0, 0, 133))), 2, kSpareCapacity, kNone);  // 399 in use
}
TEST(LlmdSaturationV2, AnObservedCapacityAppliesToItsOutputBand) {
  Asker asker = saturation();
  (void)asker.ask(0, pool(1, engine(6, 0, 400)));
  // Outputs of 200 tokens are another band, of which nothing is known: 3 · 800 - 570 = 1830, floor(2.29) = 2.
  EXPECT_DECISION(asker.ask(75, with_shape(pool_of(3, engine(0, 0, 133)), 100, 200)), 1, kSpareCapacity, kNone);
}
TEST(LlmdSaturationV2, FewSequencesBoundTheCapacity) {
  // N = min(8192 · 50 / 150, 4) = 4, k2 = 4 · (100 + 25) = 500: 900 / 0.85 - 500 = 558.8, ceil(1.12) = 2.
  EXPECT_DECISION(saturation(4).ask(0, pool(1, with_kv(0.9))), 3, kSaturated, kNone);
}
TEST(LlmdSaturationV2, PrefillPoolsAreSizedForOneOutputToken) {
  // O = 1: N = min(8192 · 1 / 101, 4) = 4, k2 = 4 · 100.5 = 402: 300 / 0.85 = 352.9 < 402 < 428.6.
  EXPECT_DECISION(saturation(4).ask(0, pool(1, with_kv(0.3), signals::Role::kPrefill)), 1, kWithinTolerance, kNone);
  // 350 / 0.85 - 402 = 9.8: 1; a decode pool holds 500 a replica, 350 / 0.85 = 411.8.
  EXPECT_DECISION(saturation(4).ask(0, pool(1, with_kv(0.35), signals::Role::kPrefill)), 2, kSaturated, kNone);
  EXPECT_DECISION(saturation(4).ask(0, pool(1, with_kv(0.35), signals::Role::kDecode)), 1, kWithinTolerance, kNone);
}
TEST(LlmdSaturationV2, StartingReplicasCountAsSupplyOnTheWayUpOnly) {
  // 2117.6 < 3 · 800.
  EXPECT_DECISION(saturation().ask(0, with_starting(pool(2, with_kv(0.9)), 1)), 3, kWithinTolerance, kNone);
  // 2 · 800 - 400 / 0.70 = 1028.6: 1; with the two that start it would be 3.
  EXPECT_DECISION(saturation().ask(0, with_starting(pool(2, with_kv(0.2)), 2)), 3, kSpareCapacity, kNone);
}
TEST(LlmdSaturationV2, AddsAtMostTenInFifteenSeconds) {
  auto waiting = pool(1, engine(0));
  waiting.unrouted_requests = 1000;
  EXPECT_DECISION(saturation().ask(0, waiting), 11, kSaturated, kGrowthRate);
}
TEST(LlmdSaturationV2, ReplicasWithoutTelemetryCountAsEmptyWithAverageCapacity) {
  // 3200 - 600 / 0.70 = 2342.9: floor(2.93) = 2, though two of the four may be full.
  EXPECT_DECISION(saturation().ask(0, without_samples_of_last(pool(4, with_kv(0.3)), 2)), 2, kSpareCapacity, kNone);
}
TEST(LlmdSaturationV2, HoldsAfterAMinuteWithoutTelemetry) {
  EXPECT_DECISION(saturation().ask(0, without_samples_of_last(pool(4, with_kv(0.9)), 4)), 4, kNoData, kNone);
  EXPECT_DECISION(saturation().ask(600, pool(2, with_kv(0.9)), 60), 2, kNoData, kNone);
  EXPECT_DECISION(saturation().ask(600, pool(2, with_kv(0.9)), 59), 3, kSaturated, kNone);
}
TEST(LlmdSaturationV2, StaysWithinItsBounds) {
  EXPECT_DECISION(saturation().ask(0, bounded(pool(2, with_kv(0.9)), 1, 2)), 2, kSaturated, kMaxReplicas);
  EXPECT_DECISION(saturation().ask(0, bounded(pool(4, engine(0)), 2, 9)), 2, kSpareCapacity, kMinReplicas);
}

}  // namespace
}  // namespace penstock::planner
