#include "capacity/iteration_interval.h"

#include <gtest/gtest.h>

#include <cmath>

#include "capacity/correction_testing.h"
#include "engine/linear.h"
#include "engine/polynomial.h"

namespace penstock::capacity {
namespace {

using testing::BusyEngine;

const engine::Polynomial kPolynomial;

IterationInterval some_interval() {
  BusyEngine engine{testing::times(kPolynomial, 1.0), 1};
  engine.go_on(5.0);
  const signals::EngineSample before = engine.sample;
  engine.go_on(5.0);
  return interval_between(before, engine.sample);
}

TEST(IterationInterval, IsTheDifferenceOfTwoSamples) {
  BusyEngine engine{testing::times(kPolynomial, 1.0), 1};
  engine.go_on(5.0);
  const signals::EngineSample before = engine.sample;
  engine.go_on(7.0);
  const IterationInterval interval = interval_between(before, engine.sample);
  EXPECT_EQ(interval.elapsed, std::chrono::seconds{7});
  EXPECT_EQ(interval.done.steps(), engine.sample.iterations.steps() - before.iterations.steps());
  EXPECT_EQ(interval.done.busy(), engine.sample.iterations.busy() - before.iterations.busy());
  EXPECT_TRUE(is_plausible(interval));
  EXPECT_FALSE(went_back(before.iterations, engine.sample.iterations));
  EXPECT_TRUE(went_back(engine.sample.iterations, before.iterations));
}

TEST(IterationInterval, WithoutStepsIsPlausible) {
  EXPECT_TRUE(is_plausible({{}, std::chrono::seconds{5}, 1000}));
  EXPECT_TRUE(is_plausible({{}, std::chrono::seconds{5}, 0}));
}

TEST(IterationInterval, WithContradictionsIsNotPlausible) {
  const auto broken = [](auto breaks) {
    IterationInterval interval = some_interval();
    breaks(interval.done);
    return is_plausible(interval);
  };
  EXPECT_FALSE(broken([](auto& done) { done.decode.busy *= 4; }));  // more than passed
  EXPECT_FALSE(broken([](auto& done) { done.decode.busy = {}; }));
  EXPECT_FALSE(broken([](auto& done) { done.prefill.steps = 0; }));
  EXPECT_FALSE(broken([](auto& done) { done.prefill_requests = done.prefill.steps - 1; }));
  EXPECT_FALSE(broken([](auto& done) { done.prefill_new_tokens = 0; }));
  EXPECT_FALSE(broken([](auto& done) { done.prefill_new_tokens_squared = 1.0; }));
  EXPECT_FALSE(broken([](auto& done) { done.prefill_new_tokens_squared = std::nan(""); }));
  EXPECT_FALSE(broken([](auto& done) { done.prefill_attention_pairs = -1.0; }));
  EXPECT_FALSE(broken([](auto& done) { done.decode.decode_sequences = done.decode.steps - 1; }));
  EXPECT_FALSE(broken([](auto& done) { done.decode.decode_context_tokens = 0; }));
  EXPECT_FALSE(broken([](auto& done) { done.decode.active_kv_tokens = done.decode.steps * 1'000'001; }));
  EXPECT_TRUE(broken([](auto&) {}));
}

TEST(PredictedBusyTime, IsExactForALinearLaw) {
  const auto law = *engine::Linear::make({5.0, 0.1, 0.02, 0.0001});
  BusyEngine engine{testing::times(law, 1.0), 2};
  engine.go_on(5.0);
  const signals::EngineSample before = engine.sample;
  engine.go_on(60.0);
  const IterationInterval interval = interval_between(before, engine.sample);
  EXPECT_NEAR(predicted_busy_ms(law, interval) / core::to_milliseconds(interval.done.busy()), 1.0, 1e-3);
}

// The second moment is what makes the quadratic term right.
TEST(PredictedBusyTime, IsNearForAQuadraticLaw) {
  class Quadratic final : public engine::StepTimeModel {
   public:
    [[nodiscard]] core::Duration step(const engine::StepShape& shape) const override {
      const auto fresh = static_cast<double>(shape.prefill_new_tokens);
      return core::from_milliseconds(1.0 + 1e-6 * fresh * fresh);
    }
    [[nodiscard]] std::string description() const override { return "quadratic"; }
  } law;
  BusyEngine engine{testing::times(law, 1.0), 3};
  engine.go_on(5.0);
  const signals::EngineSample before = engine.sample;
  engine.go_on(60.0);
  const IterationInterval interval = interval_between(before, engine.sample);
  EXPECT_NEAR(predicted_busy_ms(law, interval) / core::to_milliseconds(interval.done.busy()), 1.0, 5e-3);
}

// Many tiny prompts and a few long ones: one deviation below the mean would be less than no token at all.
TEST(PredictedBusyTime, TakesSkewedPrompts) {
  IterationInterval interval;
  interval.elapsed = std::chrono::seconds{100};
  interval.kv_capacity_tokens = 100'000;
  core::IterationTotals& done = interval.done;
  done.prefill.steps = done.prefill_requests = 100;
  done.prefill_new_tokens = 99 + 8000;
  done.prefill_new_tokens_squared = 99 + 8000.0 * 8000.0;
  done.prefill.busy = std::chrono::seconds{3};
  ASSERT_TRUE(is_plausible(interval));
  engine::StepShape small, large;
  small.prefill_requests = large.prefill_requests = 1;
  small.prefill_new_tokens = 1;
  large.prefill_new_tokens = 8000;
  const double truth =
      99 * core::to_milliseconds(kPolynomial.step(small)) + core::to_milliseconds(kPolynomial.step(large));
  EXPECT_NEAR(predicted_busy_ms(kPolynomial, interval) / truth, 1.0, 0.01);
}

}  // namespace
}  // namespace penstock::capacity
