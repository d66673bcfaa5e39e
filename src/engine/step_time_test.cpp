#include "engine/step_time.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/random.h"
#include "engine/linear.h"
#include "engine/polynomial.h"

namespace penstock::engine {
namespace {

std::shared_ptr<const StepTimeModel> linear() {
  return std::make_shared<const Linear>(Linear::make({8.0, 0.05, 0.015, 0.00004}).value());
}

StepShape drawn(core::RandomStream& random) {
  StepShape shape;
  shape.decode_sequences = static_cast<std::uint32_t>(1 + random.below(300));
  shape.decode_context_tokens = shape.decode_sequences * (1 + random.below(4000));
  shape.prefill_new_tokens = random.below(2) * random.below(8000);
  shape.prefill_requests = shape.prefill_new_tokens > 0 ? 1 : 0;
  shape.total_kv_tokens = 1'000'000;
  shape.active_kv_tokens = random.below(1'000'001);
  return shape;
}

TEST(SlowedStepTime, EachStepTakesTheFactorTimesAsLongInWholeNanoseconds) {
  const auto model = linear();
  core::RandomStream random{3};
  for (const double factor : {0.37, 1.5, 2.0}) {
    const auto slow = slowed(model, factor);
    for (int round = 0; round < 200; ++round) {
      const StepShape shape = drawn(random);
      const double exact = factor * static_cast<double>(model->step(shape).count());
      EXPECT_EQ(slow->step(shape).count(), std::llround(exact));
    }
  }
  EXPECT_EQ(slowed(model, 2.0)->description(), model->description() + " x 2");
}

TEST(SlowedStepTime, AStepOfAFastEngineStillTakesTime) {
  StepShape shape;
  shape.decode_sequences = 1;
  EXPECT_EQ(slowed(linear(), 1e-12)->step(shape), core::Duration{1});
}

TEST(SlowedStepTime, AFactorOfOneIsTheSameModel) {
  const auto model = linear();
  EXPECT_EQ(slowed(model, 1.0), model);
  EXPECT_NE(slowed(model, 1.0 + 1e-9), model);
}

TEST(SlowedStepTimeProperty, ADecodeRunEqualsItsStepsToTheNanosecond) {
  core::RandomStream random{5};
  const std::shared_ptr<const StepTimeModel> models[] = {linear(), std::make_shared<const Polynomial>()};
  for (const auto& model : models) {
    for (int round = 0; round < 200; ++round) {
      const auto slow = slowed(model, random.uniform(0.2, 5.0));
      StepShape shape = drawn(random);
      shape.prefill_new_tokens = shape.prefill_requests = 0;
      const auto steps = static_cast<std::uint32_t>(1 + random.below(200));
      const core::Duration limit = slow->step(shape) * static_cast<std::int64_t>(random.below(200));
      const DecodeRun run = slow->decode_run(shape, steps, limit);
      DecodeRun expected;
      while (expected.steps < steps && (expected.steps == 0 || expected.time < limit)) {
        expected.time += slow->step(shape);
        ++expected.steps;
        shape.decode_context_tokens += shape.decode_sequences;
      }
      ASSERT_EQ(run.steps, expected.steps);
      ASSERT_EQ(run.time, expected.time);
    }
  }
}

}  // namespace
}  // namespace penstock::engine
