#include "capacity/mean_step.h"

#include <gtest/gtest.h>

#include "engine/linear.h"
#include "engine/polynomial.h"

namespace penstock::capacity {
namespace {

engine::Linear linear() { return *engine::Linear::make({4.0, 0.5, 0.01, 0.001}); }

TEST(MeanStep, WithWholeCountsIsTheStep) {
  engine::StepShape shape;
  shape.prefill_requests = 1;
  shape.prefill_new_tokens = 700;
  shape.decode_sequences = 3;
  shape.decode_context_tokens = 900;
  shape.active_kv_tokens = 1600;
  shape.total_kv_tokens = 10'000;
  const MeanShape mean{1, 700, 0, 0, 3, 900, 1600, 10'000};
  EXPECT_DOUBLE_EQ(mean_step_ms(linear(), mean), core::to_milliseconds(linear().step(shape)));
  const engine::Polynomial polynomial;
  EXPECT_DOUBLE_EQ(mean_step_ms(polynomial, mean), core::to_milliseconds(polynomial.step(shape)));
}

TEST(MeanStep, IsLinearBetweenWholeNumbersOfSequences) {
  EXPECT_NEAR(mean_step_ms(linear(), {0, 0, 0, 0, 2.5, 2500, 0, 1}), 4.0 + 0.5 * 2.5 + 0.001 * 2500, 1e-6);
  EXPECT_NEAR(mean_step_ms(linear(), {1, 100, 0, 0, 0.25, 250, 0, 1}), 4.0 + 0.5 * 0.25 + 1.0 + 0.001 * 250, 1e-6);
}

TEST(MeanStep, DecodesOneSequenceAtLeastOrComputesAPrompt) {
  EXPECT_NEAR(mean_step_ms(linear(), {0, 0, 0, 0, 0.25, 250, 0, 1}), 4.0 + 0.5 + 0.001 * 1000, 1e-6);
}

}  // namespace
}  // namespace penstock::capacity
