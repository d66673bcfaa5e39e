#include "capacity/learned_step_time.h"

#include <gtest/gtest.h>

#include <cmath>

#include "capacity/correction_testing.h"

namespace penstock::capacity {
namespace {

using testing::BusyEngine;

constexpr engine::LinearCoefficients kTrue{6.0, 0.08, 0.03, 0.00005};

LearnedStepTime learn(BusyEngine engine, int intervals, double kept = 0.99) {
  LearnedStepTime learned;
  for (int i = 0; i < intervals; ++i) {
    const signals::EngineSample before = engine.sample;
    engine.go_on(5.0);
    learned.add(interval_between(before, engine.sample), kept);
  }
  return learned;
}

TEST(LearnedStepTime, FindsTheLawOfALinearEngine) {
  const auto law = *engine::Linear::make(kTrue);
  const LearnedStepTime learned = learn({testing::times(law, 1.0), 5}, 60);
  const auto found = learned.coefficients();
  ASSERT_TRUE(found.has_value());
  EXPECT_NEAR(found->step_ms, kTrue.step_ms, 0.02);
  EXPECT_NEAR(found->sequence_ms, kTrue.sequence_ms, 0.001);
  EXPECT_NEAR(found->prefill_token_ms, kTrue.prefill_token_ms, 1e-5);
  EXPECT_NEAR(found->kv_token_ms, kTrue.kv_token_ms, 1e-6);
  EXPECT_EQ(learned.model()->description().substr(0, 8), "learned:");
}

TEST(LearnedStepTime, HasNoResultWithFewSamples) {
  const auto law = *engine::Linear::make(kTrue);
  EXPECT_FALSE(LearnedStepTime{}.coefficients().has_value());
  EXPECT_EQ(LearnedStepTime{}.model(), nullptr);
  EXPECT_EQ(learn({testing::times(law, 1.0), 5}, 9).model(), nullptr);
  EXPECT_NE(learn({testing::times(law, 1.0), 5}, 10).model(), nullptr);
}

// A step that gets shorter with every sequence has no law here; the nearest with nothing negative is taken.
TEST(LearnedStepTime, HasNoNegativeCoefficient) {
  const auto odd = [](const engine::StepShape& shape) {
    return 20.0 - 0.2 * shape.decode_sequences + 0.01 * static_cast<double>(shape.prefill_new_tokens);
  };
  const auto found = learn({odd, 6}, 40).coefficients();
  ASSERT_TRUE(found.has_value());
  EXPECT_GE(found->sequence_ms, 0.0);
  EXPECT_GE(found->kv_token_ms, 0.0);
  EXPECT_NEAR(found->step_ms, 14.0, 1.0);
  EXPECT_NEAR(found->prefill_token_ms, 0.01, 0.001);
}

TEST(LearnedStepTime, ForgetsOldSamples) {
  const auto slow = *engine::Linear::make(kTrue);
  const auto fast = *engine::Linear::make({3.0, 0.04, 0.015, 0.000025});
  LearnedStepTime learned = learn({testing::times(slow, 1.0), 7}, 50, 0.8);
  BusyEngine engine{testing::times(fast, 1.0), 8};
  for (int i = 0; i < 50; ++i) {
    const signals::EngineSample before = engine.sample;
    engine.go_on(5.0);
    learned.add(interval_between(before, engine.sample), 0.8);
  }
  EXPECT_NEAR(learned.coefficients()->step_ms, 3.0, 0.1);
}

TEST(LearnedStepTime, ReportsWhetherItHasPromptSamples) {
  const auto law = *engine::Linear::make(kTrue);
  BusyEngine engine{testing::times(law, 1.0), 9};
  const signals::EngineSample before = engine.sample;
  engine.go_on(5.0);
  IterationInterval interval = interval_between(before, engine.sample);
  LearnedStepTime learned;
  interval.done.prefill = {};
  interval.done.prefill_requests = interval.done.prefill_new_tokens = 0;
  learned.add(interval, 1.0);
  EXPECT_FALSE(learned.has_seen_prompts());
  learned.add(interval_between(before, engine.sample), 1.0);
  EXPECT_TRUE(learned.has_seen_prompts());
}

// Steps that are all alike tell no coefficient apart; whatever is found still predicts them.
TEST(LearnedStepTime, PredictsStepsThatAreAllAlike) {
  IterationInterval interval;
  interval.elapsed = std::chrono::seconds{5};
  interval.kv_capacity_tokens = 1'000'000;
  interval.done.decode = {100, std::chrono::seconds{2}, 3200, 3'200'000, 3'200'000};
  LearnedStepTime learned;
  for (int i = 0; i < 100; ++i) learned.add(interval, 0.95);
  const auto model = learned.model();
  ASSERT_NE(model, nullptr);
  EXPECT_NEAR(predicted_busy_ms(*model, interval), 2000.0, 1.0);
}

}  // namespace
}  // namespace penstock::capacity
