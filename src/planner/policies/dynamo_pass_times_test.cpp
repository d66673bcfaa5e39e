#include "planner/policies/dynamo_pass_times.h"

#include <gtest/gtest.h>

namespace penstock::planner {
namespace {

core::Iteration pass(double seconds, std::uint32_t prompts, std::uint64_t prompt_tokens, std::uint32_t sequences,
                     std::uint64_t context, std::uint64_t before = 0) {
  return {core::from_seconds(seconds), prompts, prompt_tokens, before, sequences, context};
}
// 4 ms, 10 µs per token and 10 ns per token of attention.
double law(double attention, double tokens) { return 0.004 + 1e-8 * attention + 1e-5 * tokens; }

TEST(DynamoPassTimes, HasNoEstimateBeforeTheFifthPassOfAKind) {
  DynamoPassTimes times;
  for (std::uint32_t n = 1; n <= 4; ++n) times.observe(pass(law(100.0 * n * n, n), 0, 0, n, 100 * n * n));
  EXPECT_FALSE(times.ready());
  EXPECT_FALSE(times.estimate({0, 0, 0, 2, 400}));
  times.observe(pass(law(2500, 5), 0, 0, 5, 2500));
  EXPECT_TRUE(times.ready());
  ASSERT_TRUE(times.estimate({0, 0, 0, 7, 9000}));
  EXPECT_NEAR(*times.estimate({0, 0, 0, 7, 9000}), law(9000, 7), 1e-9);
  EXPECT_FALSE(times.estimate({1, 100, 0, 7, 9000}));  // Decodes beside a prompt are another kind.
  EXPECT_FALSE(times.estimate({1, 100, 0, 0, 0}));
}
TEST(DynamoPassTimes, AttentionOfAPromptIsItsQueryKeyPairs) {
  DynamoPassTimes times;
  for (std::uint32_t n = 1; n <= 6; ++n) {
    const double tokens = 1000.0 * n * n;  // Of two prompts, each with 500 tokens in the cache.
    times.observe(
        pass(law(1000.0 + tokens * (500.0 + (tokens / 2.0 + 1.0) / 2.0), tokens), 2, 1000 * n * n, 0, 0, 1000));
  }
  ASSERT_TRUE(times.estimate({1, 3000, 0, 0, 0}));
  EXPECT_NEAR(*times.estimate({1, 3000, 0, 0, 0}), law(3000.0 * 3001.0 / 2.0, 3000), 1e-8);
}
TEST(DynamoPassTimes, AFitByWhichMoreWorkTakesLessIsDiscarded) {
  DynamoPassTimes times;
  for (std::uint32_t n = 1; n <= 6; ++n) times.observe(pass(0.1 - 0.01 * n, 0, 0, n, 1000 * n));
  EXPECT_FALSE(times.ready());
  EXPECT_FALSE(times.estimate({0, 0, 0, 2, 2000}));
}
TEST(DynamoPassTimes, AFitStaysUntilThereIsABetterOne) {
  DynamoPassTimes times;
  for (std::uint32_t n = 1; n <= 6; ++n) times.observe(pass(0.01 * n, 0, 0, n, 1000 * n));
  ASSERT_NEAR(times.estimate({0, 0, 0, 4, 4000}).value_or(0), 0.04, 1e-6);
  for (int i = 0; i < 3; ++i) times.observe(pass(0.001, 0, 0, 6, 6000));  // Then the slope would be negative.
  EXPECT_NEAR(times.estimate({0, 0, 0, 4, 4000}).value_or(0), 0.04, 0.02);
  EXPECT_TRUE(times.ready());
}
TEST(DynamoPassTimes, RarePassesStayWhileFrequentOnesAreReplaced) {
  DynamoPassTimes times;
  times.observe(pass(1.0, 0, 0, 200, 1'000'000));  // The only one in its bucket, and the oldest.
  for (std::uint32_t n = 0; n < 1000; ++n) times.observe(pass(0.01, 0, 0, 1 + n % 4, 1000 + n % 7));
  EXPECT_EQ(times.passes(), DynamoPassTimes::kPassesMax);
  ASSERT_TRUE(times.estimate({0, 0, 0, 200, 1'000'000}));
  EXPECT_NEAR(*times.estimate({0, 0, 0, 200, 1'000'000}), 1.0, 0.02);
}
TEST(DynamoPassTimes, PassesWithoutTimeOrWorkAreIgnored) {
  DynamoPassTimes times;
  for (int i = 0; i < 10; ++i) {
    times.observe(pass(0.0, 0, 0, 4, 4000));
    times.observe(pass(1.0, 0, 0, 0, 0));
  }
  EXPECT_EQ(times.passes(), 0U);
}

}  // namespace
}  // namespace penstock::planner
