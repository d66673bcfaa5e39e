// Targets of one replica: 1 waiting and 16 running requests, a saturation of 0.7, 1.5 s of prompts at 1,000 per second,
// and 0.8 of the KV cache. Of n requests that wait in each engine, 5 make the pool saturated, and n - 5 count as held.
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

Asker asker(std::string_view name) {
  PolicyContext context;
  context.idle_prompt_tokens_per_s = 1000.0;
  return Asker(name, context);
}
// The decision once windows of 300 s agree.
PoolDecision after_300_s(std::string_view name, const signals::PoolObservation& pool) {
  Asker made = asker(name);
  for (double now = 0; now < 300; now += 15) (void)made.ask(now, pool);
  return made.ask(300, pool);
}
signals::EngineSample prompts(std::uint64_t waiting, std::uint64_t computing = 0) {
  signals::EngineSample sample = engine(waiting > 0 ? 1 : 0, computing > 0 ? 1 : 0);
  sample.queued_prefill_tokens = waiting;
  sample.inflight_prefill_tokens = computing;
  return sample;
}

TEST(LlmdQueue, GrowsOnceThreeHundredSecondsAgree) {
  Asker made = asker("llmd-queue");
  // 2 engines with 8 waiting requests each: ceil(6 / 1) = 6, and 100 % in 15 s allows 4.
  for (double now = 0; now < 300; now += 15)
    EXPECT_DECISION(made.ask(now, pool_of(2, engine(8))), 2, kStabilized, kStabilization);
  EXPECT_DECISION(made.ask(300, pool_of(2, engine(8))), 4, kLoadAboveTarget, kGrowthRate);
}
TEST(LlmdQueue, OneTickBelowBeginsTheWindowAnew) {
  Asker made = asker("llmd-queue");
  for (double now = 0; now < 150; now += 15) (void)made.ask(now, pool_of(2, engine(8)));
  (void)made.ask(150, pool_of(2, engine(6)));  // 2 held requests are the target of two replicas.
  EXPECT_DECISION(made.ask(300, pool_of(2, engine(8))), 2, kStabilized, kStabilization);
  EXPECT_DECISION(made.ask(450, pool_of(2, engine(8))), 4, kLoadAboveTarget, kGrowthRate);
}
TEST(LlmdQueue, TheGreaterOfBothTriggersCounts) {
  // ceil((2 · 41 - 2) / 16) = 5 beats ceil(2 / 1) = 2; doubling allows 4.
  EXPECT_DECISION(after_300_s("llmd-queue", pool_of(2, engine(6, 35))), 4, kLoadAboveTarget, kGrowthRate);
  // ceil(4 · 20 / 16) = 5.
  EXPECT_DECISION(after_300_s("llmd-queue", pool_of(4, engine(0, 20))), 5, kLoadAboveTarget, kNone);
}
TEST(LlmdQueue, RequestsInEnginesBelowSaturationRun) {
  // max(5 / 5, 0) = 1 each: nothing is held, and ceil(4 · 20 / 16) = 5.
  const PoolDecision decision = after_300_s("llmd-queue", pool_of(4, engine(5, 15)));
  EXPECT_DECISION(decision, 5, kLoadAboveTarget, kNone);
  EXPECT_EQ(decision.evidence[0].value, 0.0);
  EXPECT_EQ(decision.evidence[1].value, 80.0);
}
TEST(LlmdQueue, AFullKvCacheHoldsWhatWaits) {
  // max(2 / 5, 1 / 0.8) = 1.25 each: 5 · (2.5 - 2) = 2.5 of the 4 requests.
  EXPECT_DECISION(after_300_s("llmd-queue", pool_of(2, engine(2, 0, 1000))), 3, kLoadAboveTarget, kNone);
}
TEST(LlmdQueue, RequestsInFrontOfThePoolWait) {
  signals::PoolObservation pool = pool_of(2, engine(0));
  pool.unrouted_requests = 3;
  EXPECT_DECISION(after_300_s("llmd-queue", pool), 3, kLoadAboveTarget, kNone);
}
TEST(LlmdQueue, ShrinksToTheLoadAtOnceAfterItsWindow) {
  // ceil(8 · 2 / 16) = 1, and 100 % in 15 s has no lower limit.
  EXPECT_DECISION(after_300_s("llmd-queue", pool_of(8, engine(0, 2))), 1, kLoadBelowTarget, kNone);
  EXPECT_DECISION(after_300_s("llmd-queue", bounded(pool_of(8, engine(0, 2)), 3, 9)), 3, kLoadBelowTarget,
                  kMinReplicas);
}
TEST(LlmdQueue, StaysWithinTheTolerance) {
  // 10 · 17 / (16 · 10) = 1.06.
  EXPECT_DECISION(after_300_s("llmd-queue", pool_of(10, engine(0, 17))), 10, kWithinTolerance, kNone);
}
TEST(LlmdQueue, SettingsReplaceItsTargets) {
  // 4 · 20 running: ceil(80 / 40) = 2 for running=40. ceil(16 / 2) = 8 for queue=2 and 4 · 4 held.
  EXPECT_DECISION(after_300_s("llmd-queue:running=40", pool_of(4, engine(0, 20))), 2, kLoadBelowTarget, kNone);
  EXPECT_DECISION(after_300_s("llmd-queue:queue=2", pool_of(4, engine(9))), 8, kLoadAboveTarget, kNone);
}

TEST(LlmdQueueGuard, GrowsAtOnce) {
  EXPECT_DECISION(asker("llmd-queue-guard").ask(0, pool_of(2, engine(8))), 4, kLoadAboveTarget, kGrowthRate);
  EXPECT_DECISION(asker("llmd-queue-guard").ask(0, pool_of(4, engine(0, 20))), 5, kLoadAboveTarget, kNone);
}
TEST(LlmdQueueGuard, StartingReplicasAreSubtractedFromTheDemand) {
  // Demand 9 of 3 ready and 3 starting replicas: max(9 - 3, 6) = 6.
  EXPECT_DECISION(asker("llmd-queue-guard").ask(0, with_starting(pool_of(3, engine(8)), 3)), 6, kWithinTolerance,
                  kNone);
  // Demand 12: 12 - 3 = 9.
  EXPECT_DECISION(asker("llmd-queue-guard").ask(0, with_starting(pool_of(3, engine(9)), 3)), 9, kLoadAboveTarget,
                  kNone);
}
TEST(LlmdQueueGuard, TheDiscountNeverShrinksThePool) {
  // Demand 8 of 2 ready and 5 starting replicas: max(8 - 5, 7) = 7.
  EXPECT_DECISION(asker("llmd-queue-guard").ask(0, with_starting(pool_of(2, engine(9)), 5)), 7, kWithinTolerance,
                  kNone);
}
TEST(LlmdQueueGuard, ADemandBelowTheReplicasShrinksThemAfterItsWindow) {
  EXPECT_DECISION(asker("llmd-queue-guard").ask(0, pool_of(4, engine(0, 4))), 4, kStabilized, kStabilization);
  // 4 · 4 / 16 = 1.
  EXPECT_DECISION(after_300_s("llmd-queue-guard", pool_of(4, engine(0, 4))), 1, kLoadBelowTarget, kNone);
}

TEST(LlmdPoolSaturation, TheSignalIsTheMeanOfEndpointsAndAtMostOne) {
  // max(1 / 5, 0 / 0.8) = 0.2 and max(0, 0.6 / 0.8) = 0.75: mean 0.475, below the target of one replica.
  const auto mixed = pool_of(std::vector{engine(1), with_kv(0.6)});
  const PoolDecision decision = asker("llmd-pool-saturation").ask(0, mixed);
  EXPECT_EQ(decision.evidence[0].name, "pool_saturation");
  EXPECT_NEAR(decision.evidence[0].value, 0.475, 1e-12);
  EXPECT_EQ(asker("llmd-pool-saturation").ask(0, pool_of(2, engine(50))).evidence[0].value, 1.0);
}
TEST(LlmdPoolSaturation, AFullPoolAsksForTwoReplicas) {
  // ceil(1 / 0.7) = 2, whatever the size of the pool.
  EXPECT_DECISION(after_300_s("llmd-pool-saturation", pool_of(1, engine(9))), 2, kLoadAboveTarget, kNone);
  EXPECT_DECISION(after_300_s("llmd-pool-saturation", pool_of(4, engine(9))), 2, kLoadBelowTarget, kNone);
}
TEST(LlmdPoolSaturation, RunningRequestsGrowItFurther) {
  EXPECT_DECISION(after_300_s("llmd-pool-saturation", pool_of(4, engine(5, 15))), 5, kLoadAboveTarget, kNone);
}
TEST(LlmdPoolSaturation, AnEndpointWithoutMetricsIsSaturated) {
  const auto pool = without_samples_of_last(pool_of(2, engine(0)), 1);
  EXPECT_EQ(asker("llmd-pool-saturation").ask(0, pool).evidence[0].value, 0.5);
}

TEST(LlmdTokenAware, PromptsInSecondsOfWorkGrowItByOnePodInThreeMinutes) {
  Asker made = asker("llmd-token-aware");
  // 2 · (2,500 waiting + 500 computing) tokens are 6 s: ceil(6 / 1.5) = 4, one pod in 180 s.
  EXPECT_DECISION(made.ask(0, pool_of(2, prompts(2500, 500))), 3, kLoadAboveTarget, kGrowthRate);
  EXPECT_DECISION(made.ask(15, pool_of(3, prompts(1667, 333))), 3, kLoadAboveTarget, kGrowthRate);
  EXPECT_DECISION(made.ask(180, pool_of(3, prompts(1667, 333))), 4, kLoadAboveTarget, kNone);
}
TEST(LlmdTokenAware, WaitingPromptsCountWithoutWhatTheCacheHolds) {
  // Half of the prompt tokens so far were in the cache: 2 · (6,000 / 2 + 300) tokens are 6.6 s, ceil(6.6 / 1.5) = 5.
  signals::EngineSample half = prompts(6000, 300);
  half.prompt_tokens_total = 8000;
  half.prefix_hit_tokens_total = 4000;
  const PoolDecision decision = asker("llmd-token-aware").ask(0, pool_of(2, half));
  EXPECT_DECISION(decision, 3, kLoadAboveTarget, kGrowthRate);
  EXPECT_NEAR(decision.evidence[0].value, 6.6, 1e-12);
  half.prefix_hit_tokens_total = 9000;  // More than there is: a contradiction counts as all.
  EXPECT_NEAR(asker("llmd-token-aware").ask(0, pool_of(2, half)).evidence[0].value, 0.6, 1e-12);
}
TEST(LlmdTokenAware, OccupiedKvCachesGrowItToo) {
  // 3 · 0.95 / 0.8 = 3.56: 4.
  EXPECT_DECISION(asker("llmd-token-aware").ask(0, pool_of(3, with_kv(0.95))), 4, kLoadAboveTarget, kNone);
}
TEST(LlmdTokenAware, ShrinksByOnePodInFiveMinutes) {
  Asker made = asker("llmd-token-aware");
  for (double now = 0; now < 300; now += 15)
    EXPECT_DECISION(made.ask(now, pool_of(4, with_kv(0.1))), 4, kStabilized, kStabilization);
  EXPECT_DECISION(made.ask(300, pool_of(4, with_kv(0.1))), 3, kLoadBelowTarget, kShrinkRate);
  EXPECT_DECISION(made.ask(585, pool_of(3, with_kv(0.1))), 3, kLoadBelowTarget, kShrinkRate);
  EXPECT_DECISION(made.ask(600, pool_of(3, with_kv(0.1))), 2, kLoadBelowTarget, kShrinkRate);
}
TEST(LlmdTokenAware, PrefillPoolsCountPromptsAndDecodePoolsTheCache) {
  signals::EngineSample both = prompts(6000);
  both.kv_used_tokens = 950;  // Of 1,000.
  EXPECT_DECISION(asker("llmd-token-aware").ask(0, pool_of(3, both, signals::Role::kDecode)), 4, kLoadAboveTarget,
                  kNone);
  // 3 · 6 s / 1.5 s = 12.
  EXPECT_DECISION(asker("llmd-token-aware").ask(0, pool_of(3, both, signals::Role::kPrefill)), 4, kLoadAboveTarget,
                  kGrowthRate);
  EXPECT_DECISION(asker("llmd-token-aware:backlog=6").ask(0, pool_of(3, both, signals::Role::kPrefill)), 3,
                  kWithinTolerance, kNone);
  EXPECT_DECISION(asker("llmd-token-aware:kv=0.95").ask(0, pool_of(3, both, signals::Role::kDecode)), 3,
                  kWithinTolerance, kNone);
}
TEST(LlmdTokenAware, WithoutTelemetryNothingIsInFlight) {
  const auto silent = without_samples_of_last(pool_of(4, engine(0)), 4);
  EXPECT_DECISION(after_300_s("llmd-token-aware", silent), 3, kLoadBelowTarget, kShrinkRate);
}

}  // namespace
}  // namespace penstock::planner
