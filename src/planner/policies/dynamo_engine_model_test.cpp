#include "planner/policies/dynamo_engine_model.h"

#include <gtest/gtest.h>

namespace penstock::planner {
namespace {

using signals::Role;

// A pass takes 4 ms and 10 µs per prompt token; prompts have 1,000 tokens on average.
DynamoEngineModel prefill_model() {
  DynamoEngineModel model{Role::kPrefill};
  for (const std::uint32_t tokens : {500U, 800U, 1000U, 1200U, 1500U})
    model.observe({core::from_seconds(0.004 + 1e-5 * tokens), 1, tokens, 0, 0, 0});
  return model;
}
// A pass takes 4 ms, 100 µs per sequence and 100 ns per token; sequences have 1,000 tokens on average.
DynamoEngineModel decode_model() {
  DynamoEngineModel model{Role::kDecode};
  for (const std::uint32_t length : {500U, 800U, 1000U, 1200U, 1500U})
    for (const std::uint32_t n : {1U, 7U})
      model.observe({core::from_seconds(0.004 + 1e-4 * n + 1e-7 * n * length), 0, 0, 0, n, std::uint64_t{n} * length});
  return model;
}

TEST(DynamoEngineModel, TtftIsTheTimeOfTheQueueAndOneMorePromptInChunks) {
  const DynamoEngineModel model = prefill_model();
  const DynamoEngineLimits limits{8192, 256, 100'000};
  const DynamoEngineLoad load{.queued_requests = 2, .queued_tokens = 12'000};
  // 13,000 tokens: chunks of 8,192 and 4,808.
  EXPECT_NEAR(model.ttft(load, limits, 0.0).value_or(0), 0.138, 1e-6);
  // Half of them are in the cache.
  EXPECT_NEAR(model.ttft(load, limits, 0.5).value_or(0), 0.069, 1e-6);
  // The ratio counts up to 0.95: 651 tokens.
  EXPECT_NEAR(model.ttft(load, limits, 1.0).value_or(0), 0.01051, 1e-6);
  // An empty queue.
  EXPECT_NEAR(model.ttft(load, limits, 0.0, {0.0, 1.0, false, false}).value_or(0), 0.014, 1e-6);
}
TEST(DynamoEngineModel, ItlIsTheTimeOfAPassWithOneMoreSequence) {
  const DynamoEngineModel model = decode_model();
  // 10 sequences of 10,000 tokens.
  EXPECT_NEAR(model.itl({0, 0, 9, 9000, 0}, {}).value_or(0), 0.006, 1e-6);
  // Twice the load: 19 of 19,000.
  EXPECT_NEAR(model.itl({0, 0, 9, 9000, 0}, {1.0, 2.0, true, false}).value_or(0), 0.0078, 1e-6);
  // Preempted sequences decode again: 12 of 12,000.
  EXPECT_NEAR(model.itl({0, 0, 9, 9000, 2000}, {}).value_or(0), 0.0064, 1e-6);
}
TEST(DynamoEngineModel, CapacityIsTheHighestRateWithinTheSlo) {
  const DynamoEngineModel model = decode_model();
  const DynamoEngineLimits limits{8192, 256, 100'000};
  const DynamoRequestShape shape{900, 200, 0.0};  // 1,000 tokens on average.
  // 30 sequences: 10 ms per pass, 200 passes each.
  const auto within = model.capacity(shape, limits, 2.0, 0.0101);
  ASSERT_TRUE(within);
  EXPECT_TRUE(within->within_slo);
  EXPECT_NEAR(within->requests_per_s, 15.0, 1e-3);
  // No batch meets 1 ms: the rate of the largest batch, 100 sequences in 24 ms.
  const auto beyond = model.capacity(shape, limits, 2.0, 0.001);
  ASSERT_TRUE(beyond);
  EXPECT_FALSE(beyond->within_slo);
  EXPECT_NEAR(beyond->requests_per_s, 100 / (200 * 0.024), 1e-3);
}
TEST(DynamoEngineModel, PrefillCapacityBatchesPromptsUpToTheTtft) {
  const DynamoEngineModel model = prefill_model();
  const DynamoEngineLimits limits{8192, 256, 100'000};
  // Up to 8 prompts of 1,000 tokens fit into a pass; 4 take 44 ms.
  const auto capacity = model.capacity({1000, 100, 0.0}, limits, 0.045, 0.05);
  ASSERT_TRUE(capacity);
  EXPECT_NEAR(capacity->ttft_s, 0.044, 1e-6);
  EXPECT_NEAR(capacity->requests_per_s, 4 / 0.044, 1e-2);
}
TEST(DynamoEngineModel, LeadingZerosDoNotCountInAverages) {
  DynamoAverage average;
  average.add(0.0);
  average.add(4.0);
  average.add(0.0);
  EXPECT_DOUBLE_EQ(average.value(), 2.0);
}

}  // namespace
}  // namespace penstock::planner
