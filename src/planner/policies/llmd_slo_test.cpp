// The SLO is a TTFT of 1 s and an ITL of 50 ms: a p90 TTFT of 800 ms is a pressure of 0.8.
#include <gtest/gtest.h>

#include "planner/planner_testing.h"

namespace penstock::planner {
namespace {

using testing::Asker;
using testing::bounded;
using testing::engine;
using testing::pool_of;
using testing::with_p90;
using testing::with_starting;
using testing::without_samples_of_last;

Asker slo() {
  PolicyContext context;
  context.slo = {.ttft = std::chrono::seconds{1}, .itl = std::chrono::milliseconds{50}};
  return Asker("llmd-slo", context);
}
signals::PoolObservation pool(std::uint32_t replicas, double ttft_ms, double itl_ms,
                              signals::Role role = signals::Role::kAggregated) {
  return with_p90(pool_of(replicas, engine(0), role), ttft_ms, itl_ms);
}
// What it asks for once its 30 s window of growth agrees.
PoolDecision after_30_s(const signals::PoolObservation& pool) {
  Asker asker = slo();
  (void)asker.ask(0, pool);
  (void)asker.ask(15, pool);
  return asker.ask(30, pool);
}

TEST(LlmdSlo, RunsEveryFifteenSeconds) { EXPECT_EQ(slo().policy().interval(), std::chrono::seconds{15}); }
TEST(LlmdSlo, GrowsOnceThirtySecondsOfPressureAgree) {
  Asker asker = slo();
  // 4 + ceil(4 · (0.8 / 0.55 - 1) = 1.82) = 6.
  EXPECT_DECISION(asker.ask(0, pool(4, 800, 10)), 4, kStabilized, kStabilization);
  EXPECT_DECISION(asker.ask(15, pool(4, 800, 10)), 4, kStabilized, kStabilization);
  EXPECT_DECISION(asker.ask(30, pool(4, 800, 10)), 6, kSloAtRisk, kNone);
}
TEST(LlmdSlo, TheWorseOfBothLatenciesCounts) {
  EXPECT_DECISION(after_30_s(pool(4, 100, 40)), 6, kSloAtRisk, kNone);  // 40 / 50 = 0.8
}
TEST(LlmdSlo, HoldsBetweenItsThresholds) {
  EXPECT_DECISION(after_30_s(pool(4, 540, 10)), 4, kWithinTolerance, kNone);
  EXPECT_DECISION(after_30_s(pool(4, 410, 10)), 4, kWithinTolerance, kNone);
}
TEST(LlmdSlo, TheToleranceOfTheHpaHidesOneOfTenReplicas) {
  // 10 + ceil(10 · (0.6 / 0.55 - 1) = 0.91) = 11, which is within 10 % of 10.
  EXPECT_DECISION(after_30_s(pool(10, 600, 10)), 10, kWithinTolerance, kNone);
}
TEST(LlmdSlo, ThePressureIsAMeanOfFortyFiveSecondsAndEachValueHasACeiling) {
  Asker asker = slo();
  (void)asker.ask(0, pool(4, 200, 10));
  (void)asker.ask(15, pool(4, 200, 10));
  // (0.2 + 0.2 + 2) / 3 = 0.8; a mean with 10 would be 3.5. Growth still waits for its window.
  const PoolDecision decision = asker.ask(30, pool(4, 10'000, 10));
  ASSERT_FALSE(decision.evidence.empty());
  EXPECT_EQ(decision.evidence[0].name, "slo_pressure");
  EXPECT_NEAR(decision.evidence[0].value, 0.8, 1e-12);
  EXPECT_EQ(decision.target, 4U);
}
TEST(LlmdSlo, ShrinksByOneInTwoMinutesOnceThreeAgree) {
  Asker asker = slo();
  // 4 - floor(4 · (1 - 0.18 / 0.40) = 2.2) = 2.
  for (double now = 0; now < 180; now += 15)
    EXPECT_DECISION(asker.ask(now, pool(4, 180, 5)), 4, kStabilized, kStabilization);
  EXPECT_DECISION(asker.ask(180, pool(4, 180, 5)), 3, kSloMet, kShrinkRate);
  // 3 - floor(1.65) = 2, and the 120 s are over at 300 s.
  EXPECT_DECISION(asker.ask(195, pool(3, 180, 5)), 3, kSloMet, kShrinkRate);
  EXPECT_DECISION(asker.ask(300, pool(3, 180, 5)), 2, kSloMet, kNone);
}
TEST(LlmdSlo, StartingReplicasAreCredited) {
  // c = 3 / 4: 4 + ceil(4 · (0.6 / 0.55 - 1) = 0.36) = 5, instead of 6.
  EXPECT_DECISION(after_30_s(with_starting(pool(3, 800, 10), 1)), 5, kSloAtRisk, kNone);
}
TEST(LlmdSlo, ManyStartingReplicasMayTurnTheProposalDown) {
  // c = 2 / 4: 4 + ceil(4 · (0.4 / 0.55 - 1) = -1.09) = 3; the window of 180 s keeps the four.
  EXPECT_DECISION(after_30_s(with_starting(pool(2, 800, 10), 2)), 4, kStabilized, kStabilization);
}
TEST(LlmdSlo, WithoutTrafficThePressureIsZero) {
  Asker asker = slo();
  const auto silent = without_samples_of_last(pool_of(4, engine(0)), 4);
  (void)asker.ask(0, silent);
  EXPECT_DECISION(asker.ask(180, silent), 3, kSloMet, kShrinkRate);
}
TEST(LlmdSlo, EngineTelemetryIsNotUsed) {
  const auto deaf = without_samples_of_last(pool(4, 800, 10), 4);
  EXPECT_DECISION(after_30_s(deaf), 6, kSloAtRisk, kNone);
}
TEST(LlmdSlo, PrefillPoolsUseTtftOnly) {
  EXPECT_DECISION(after_30_s(pool(4, 500, 90, signals::Role::kPrefill)), 4, kWithinTolerance, kNone);
  EXPECT_DECISION(after_30_s(pool(4, 800, 10, signals::Role::kPrefill)), 6, kSloAtRisk, kNone);
}
TEST(LlmdSlo, DecodePoolsUseItlOnly) {
  EXPECT_DECISION(after_30_s(pool(4, 9000, 25, signals::Role::kDecode)), 4, kWithinTolerance, kNone);
  EXPECT_DECISION(after_30_s(pool(4, 10, 40, signals::Role::kDecode)), 6, kSloAtRisk, kNone);
}
TEST(LlmdSlo, StaysWithinItsBounds) {
  EXPECT_DECISION(after_30_s(bounded(pool(4, 800, 10), 1, 5)), 5, kSloAtRisk, kMaxReplicas);
  Asker asker = slo();
  (void)asker.ask(0, bounded(pool(4, 0, 0), 4, 9));
  EXPECT_DECISION(asker.ask(180, bounded(pool(4, 0, 0), 4, 9)), 4, kSloMet, kMinReplicas);
}

}  // namespace
}  // namespace penstock::planner
