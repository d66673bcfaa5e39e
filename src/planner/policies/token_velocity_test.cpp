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
using testing::PoolObservation;

PolicyContext context() {
  PolicyContext context;
  context.capacity.input_tokens_per_s = 1000.0;
  context.capacity.output_tokens_per_s = 200.0;
  return context;
}

// A pool in front of which so much arrived since the start; answers of the last minute had `answer` tokens each.
PoolObservation after(std::uint32_t replicas, std::uint64_t arrivals, std::uint64_t input_tokens, std::uint64_t answer,
                      Role role = Role::kAggregated) {
  PoolObservation pool = pool_of(replicas, engine(0), role);
  pool.arrivals_total = arrivals;
  pool.input_tokens_total = input_tokens;
  pool.last_minute.length = std::chrono::minutes{1};
  pool.last_minute.completed = 10;
  pool.last_minute.completed_output_tokens = 10 * answer;
  return pool;
}

TEST(TokenVelocity, DecidesEveryFiveSecondsOnTheSecondObservation) {
  Asker asker{"token-velocity", context()};
  EXPECT_EQ(asker.policy().interval(), std::chrono::seconds{5});
  EXPECT_DECISION(asker.ask(60, after(2, 100, 9000, 100)), 2, kNoData, kNone);
}
TEST(TokenVelocity, GrowsToThePromptTokenRateOverTheVelocity) {
  Asker asker{"token-velocity", context()};
  (void)asker.ask(60, after(2, 0, 0, 10));
  // 17,500 tokens in 5 s are 3,500 a second: 3.5 replicas. 35 requests of 10 tokens are 70 a second: 0.35.
  EXPECT_DECISION(asker.ask(65, after(2, 35, 17'500, 10)), 4, kLoadAboveTarget, kNone);
}
TEST(TokenVelocity, GrowsOnAnswersThatAreStillToBeDecoded) {
  Asker asker{"token-velocity", context()};
  (void)asker.ask(60, after(2, 0, 0, 300));
  // 20 requests in 5 s with answers of 300 tokens: 1,200 a second, 6 replicas, before any of them was generated.
  EXPECT_DECISION(asker.ask(65, after(2, 20, 1000, 300)), 6, kLoadAboveTarget, kNone);
}
TEST(TokenVelocity, ItsWindowIsFifteenSeconds) {
  Asker asker{"token-velocity", context()};
  for (const double now : {60.0, 65.0, 70.0, 75.0}) (void)asker.ask(now, after(2, 0, 0, 10));
  // 30,000 tokens of 5 s, over 15 s: 2,000 a second.
  EXPECT_DECISION(asker.ask(80, after(2, 0, 30'000, 10)), 2, kWithinTolerance, kNone);
  // 45,000 of 15 s.
  EXPECT_DECISION(asker.ask(85, after(2, 0, 45'000, 10)), 3, kLoadAboveTarget, kNone);
}
TEST(TokenVelocity, ShrinksToTheGreatestNeedOfFiveMinutes) {
  Asker asker{"token-velocity", context()};
  (void)asker.ask(0, after(5, 0, 0, 10));
  (void)asker.ask(5, after(5, 0, 25'000, 10));
  for (double now = 10; now < 305; now += 5) EXPECT_EQ(asker.ask(now, after(5, 0, 25'000, 10)).target, 5U);
  EXPECT_EQ(asker.ask(305, after(5, 0, 25'000, 10)).target, 3U);  // Of 10 s: 25,000 tokens.
  EXPECT_EQ(asker.ask(320, after(3, 0, 25'000, 10)).target, 1U);
}
TEST(TokenVelocity, TheHoldIsASetting) {
  Asker asker{"token-velocity:hold=60", context()};
  (void)asker.ask(0, after(5, 0, 0, 10));
  // 15,000 in 5 s: 3. Then nothing.
  EXPECT_DECISION(asker.ask(5, after(5, 0, 15'000, 10)), 3, kLoadBelowTarget, kNone);
  for (double now = 10; now < 80; now += 5) {
    const PoolDecision decision = asker.ask(now, after(3, 0, 15'000, 10));
    if (now < 65) {
      EXPECT_DECISION(decision, 3, kStabilized, kStabilization);
    }
  }
  EXPECT_DECISION(asker.ask(80, after(3, 0, 15'000, 10)), 1, kLoadBelowTarget, kMinReplicas);
}
TEST(TokenVelocity, StagesHaveTheirOwnRates) {
  // 4,000 prompt tokens a second, and 8 requests a second with 100 tokens each: 4 prefill and 4 decode replicas.
  Asker prefill{"token-velocity", context()}, decode{"token-velocity", context()};
  (void)prefill.ask(0, after(1, 0, 0, 1000, Role::kPrefill));
  EXPECT_EQ(prefill.ask(5, after(1, 40, 20'000, 1000, Role::kPrefill)).target, 4U);
  (void)decode.ask(0, after(1, 0, 0, 100, Role::kDecode));
  EXPECT_EQ(decode.ask(5, after(1, 40, 900'000, 100, Role::kDecode)).target, 4U);
}
TEST(TokenVelocity, UsesTheGeneratedTokensUntilAnAnswerIsComplete) {
  Asker asker{"token-velocity", context()};
  PoolObservation pool = after(1, 0, 0, 0, Role::kDecode);
  pool.last_minute.completed = 0;
  pool.last_minute.output_tokens = 60 * 500;  // 500 a second: 2.5 replicas.
  (void)asker.ask(0, pool);
  EXPECT_EQ(asker.ask(5, pool).target, 3U);
}
TEST(TokenVelocity, HeadroomRaisesTheRate) {
  Asker asker{"token-velocity:headroom=50%", context()};
  (void)asker.ask(0, after(2, 0, 0, 10));
  EXPECT_EQ(asker.ask(5, after(2, 0, 10'000, 10)).target, 3U);  // 1.5 · 2.
}
TEST(TokenVelocity, ARestartedCounterStartsAgain) {
  Asker asker{"token-velocity", context()};
  (void)asker.ask(0, after(2, 50, 900'000, 10));
  EXPECT_DECISION(asker.ask(5, after(2, 1, 5000, 10)), 2, kNoData, kNone);
  EXPECT_EQ(asker.ask(10, after(2, 2, 20'000, 10)).target, 3U);  // 15,000 in 5 s.
}
TEST(TokenVelocity, StaysWithinItsBounds) {
  Asker asker{"token-velocity", context()};
  (void)asker.ask(0, bounded(after(2, 0, 0, 10), 1, 3));
  EXPECT_DECISION(asker.ask(5, bounded(after(2, 0, 90'000, 10), 1, 3)), 3, kLoadAboveTarget, kMaxReplicas);
}

}  // namespace
}  // namespace penstock::planner
