// One replica was load-tested at 1000 prompt and 200 output tokens per second, so the targets are 0.75 of them: 750 and
// 150.
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
using testing::with_token_rates;
using testing::without_samples_of_last;

PolicyContext context() {
  PolicyContext context;
  context.capacity.input_tokens_per_s = 1000.0;
  context.capacity.output_tokens_per_s = 200.0;
  return context;
}
Asker keda() { return Asker("keda-tokens", context()); }

TEST(KedaTokens, RunsEveryFifteenSeconds) { EXPECT_EQ(keda().policy().interval(), std::chrono::seconds{15}); }
TEST(KedaTokens, GrowsToThePromptTokenRateOverItsTarget) {
  // 2400 / (750 · 2) = 1.6: ceil(2400 / 750 = 3.2) = 4; output 150 / 150 asks for 1.
  EXPECT_DECISION(keda().ask(60, with_token_rates(pool_of(2, engine(0)), 2400, 150)), 4, kLoadAboveTarget, kNone);
}
TEST(KedaTokens, GrowsToTheOutputTokenRateOverItsTarget) {
  // 700 / 150 = 4.67: 5; prompts 750 / 750 ask for 1.
  EXPECT_DECISION(keda().ask(60, with_token_rates(pool_of(2, engine(0)), 750, 700)), 5, kLoadAboveTarget, kNone);
}
TEST(KedaTokens, GrowsOnKvUse) {
  // 0.9 + 0.9 = 1.8 of a target of 0.75 each: ratio 1.2, ceil(2.4) = 3.
  EXPECT_DECISION(keda().ask(60, with_token_rates(pool_of(2, with_kv(0.9)), 100, 10)), 3, kLoadAboveTarget, kNone);
}
TEST(KedaTokens, HoldsWithinTenPercentOfTheTarget) {
  // 1600 / 1500 = 1.067.
  EXPECT_DECISION(keda().ask(60, with_token_rates(pool_of(2, engine(0)), 1600, 150)), 2, kWithinTolerance, kNone);
}
TEST(KedaTokens, ShrinksOnlyAfterFiveMinutesOfLowRates) {
  Asker asker = keda();
  const auto pool = with_token_rates(pool_of(4, with_kv(0.1)), 1400, 100);
  for (double now = 0; now < 300; now += 15) EXPECT_DECISION(asker.ask(now, pool), 4, kStabilized, kStabilization);
  // ceil(1400 / 750) = 2, ceil(100 / 150) = 1, ceil(0.4 / 0.75) = 1.
  EXPECT_DECISION(asker.ask(300, pool), 2, kLoadBelowTarget, kNone);
}
TEST(KedaTokens, CountsStartingReplicasAsThere) {
  // 3000 / (750 · 4) = 1: what 2 ready and 2 starting ones carry.
  EXPECT_DECISION(keda().ask(60, with_starting(with_token_rates(pool_of(2, engine(0)), 3000, 0), 2)), 4,
                  kWithinTolerance, kNone);
}
TEST(KedaTokens, AMissingSeriesCountsAsZero) {
  Asker asker = keda();
  // Two of four replicas at 0.75 do not report: 1.5 / 0.75 = 2.
  const auto pool = with_token_rates(without_samples_of_last(pool_of(4, with_kv(0.75)), 2), 0, 0);
  (void)asker.ask(0, pool);
  EXPECT_DECISION(asker.ask(300, pool), 2, kLoadBelowTarget, kNone);
}
TEST(KedaTokens, WithoutAnySeriesItShrinksAsOnZero) {
  Asker asker = keda();
  const auto pool = without_samples_of_last(pool_of(4, engine(0)), 4);
  EXPECT_DECISION(asker.ask(0, pool), 4, kStabilized, kStabilization);
  EXPECT_DECISION(asker.ask(300, pool), 1, kLoadBelowTarget, kMinReplicas);
}
TEST(KedaTokens, SamplesOfFiveMinutesAgoAreNoSeries) {
  // Two at 0.9 would ask for 3, were they younger.
  EXPECT_DECISION(keda().ask(600, with_token_rates(pool_of(2, with_kv(0.9)), 1500, 0), 300), 2, kWithinTolerance,
                  kNone);
  EXPECT_DECISION(keda().ask(600, with_token_rates(pool_of(2, with_kv(0.9)), 1500, 0), 299), 3, kLoadAboveTarget,
                  kNone);
}
TEST(KedaTokens, StaysWithinItsBounds) {
  EXPECT_DECISION(keda().ask(60, bounded(with_token_rates(pool_of(2, engine(0)), 2400, 0), 1, 3)), 3, kLoadAboveTarget,
                  kMaxReplicas);
  Asker asker = keda();
  const auto idle = bounded(with_token_rates(pool_of(4, engine(0)), 0, 0), 2, 9);
  (void)asker.ask(0, idle);
  EXPECT_DECISION(asker.ask(300, idle), 2, kLoadBelowTarget, kMinReplicas);
}
TEST(KedaTokens, PrefillPoolsUsePromptTokensOnly) {
  // Prompts ask for 2; 600 output tokens per second and full caches would ask for 4 and 3.
  const auto pool = with_token_rates(pool_of(2, with_kv(1.0), signals::Role::kPrefill), 1500, 600);
  EXPECT_DECISION(keda().ask(60, pool), 2, kWithinTolerance, kNone);
}
TEST(KedaTokens, DecodePoolsUseOutputTokensAndKvUsageOnly) {
  // 9000 prompt tokens per second would ask for 12; output 300 / 150 for 2.
  const auto pool = with_token_rates(pool_of(2, with_kv(0.1), signals::Role::kDecode), 9000, 300);
  EXPECT_DECISION(keda().ask(60, pool), 2, kWithinTolerance, kNone);
  // 0.9 + 0.9 asks for 3, as above.
  const auto hot = with_token_rates(pool_of(2, with_kv(0.9), signals::Role::kDecode), 9000, 300);
  EXPECT_DECISION(keda().ask(60, hot), 3, kLoadAboveTarget, kNone);
}
TEST(KedaTokens, WakesFromZeroAtTheNextPoll) {
  Asker asker = keda();
  const auto quiet = bounded(with_token_rates(pool_of({}), 0, 0), 0, 9);
  const auto busy = bounded(with_token_rates(pool_of({}), 9000, 0), 0, 9);
  EXPECT_DECISION(asker.ask(0, quiet), 0, kWithinTolerance, kNone);
  EXPECT_DECISION(asker.ask(15, busy), 0, kWithinTolerance, kNone);
  EXPECT_DECISION(asker.ask(30, busy), 1, kLoadAboveTarget, kNone);
}
TEST(KedaTokens, RemovesAllReplicasAfterFiveMinutesWithoutActivity) {
  for (const std::uint32_t replicas : {1U, 3U}) {
    Asker asker = keda();
    const auto pool = bounded(with_token_rates(pool_of(replicas, engine(0)), 0, 0), 0, 9);
    for (double now = 0; now < 300; now += 15) EXPECT_EQ(asker.ask(now, pool).target, replicas);
    EXPECT_DECISION(asker.ask(300, pool), 0, kLoadBelowTarget, kNone);
  }
}
TEST(KedaTokens, RemovesTheLastReplicaAtAPollOnly) {
  Asker asker = keda();
  const auto idle = bounded(with_token_rates(pool_of(1, engine(0)), 0, 0), 0, 9);
  const auto busy = bounded(with_token_rates(pool_of(1, engine(0)), 10, 0), 0, 9);
  (void)asker.ask(0, idle);
  (void)asker.ask(15, busy);
  // Polls come at 0, 30, 60 s and so on; at 315 s the 300 s are over, at 330 s is the next poll.
  for (double now = 30; now < 330; now += 15) EXPECT_EQ(asker.ask(now, idle).target, 1U) << now;
  EXPECT_DECISION(asker.ask(330, idle), 0, kLoadBelowTarget, kNone);
}
TEST(KedaTokens, TheLastReplicaStaysForTheCooldown) {
  EXPECT_DECISION(keda().ask(0, bounded(with_token_rates(pool_of(1, engine(0)), 0, 0), 0, 9)), 1, kStabilized,
                  kCooldown);
}
TEST(KedaTokens, ReportsRatesAndTargets) {
  EXPECT_EQ(sentence(keda().ask(60, with_token_rates(pool_of(2, with_kv(0.25)), 2400, 150))),
            "input_token_rate 2400 tokens/s, input_target_per_replica 750 tokens/s, output_token_rate 150 tokens/s, "
            "output_target_per_replica 150 tokens/s, kv_usage_sum 0.5 replicas");
}

}  // namespace
}  // namespace penstock::planner
