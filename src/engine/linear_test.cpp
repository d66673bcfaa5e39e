#include "engine/linear.h"

#include <gtest/gtest.h>

#include <limits>

namespace penstock::engine {
namespace {

TEST(Linear, AddsItsFourTerms) {
  const auto model = Linear::make({10.0, 0.5, 0.02, 0.001});
  ASSERT_TRUE(model);
  StepShape shape;
  shape.decode_sequences = 8;
  shape.decode_context_tokens = 4000;
  EXPECT_EQ(model->step(shape), core::from_milliseconds(10.0 + 4.0 + 4.0));
  shape.prefill_requests = 1;
  shape.prefill_new_tokens = 100;
  shape.prefill_context_tokens = 2000;
  EXPECT_EQ(model->step(shape), core::from_milliseconds(18.0 + 2.0 + 2.0));
}

TEST(Linear, StopsARunAfterTheStepThatReachesTheLimit) {
  const auto model = Linear::make({1.0, 0.0, 0.0, 0.0});
  StepShape shape;
  shape.decode_sequences = 1;
  EXPECT_EQ(model->decode_run(shape, 10, std::chrono::milliseconds{3}).steps, 3U);
  EXPECT_EQ(model->decode_run(shape, 10, std::chrono::microseconds{2001}).steps, 3U);
  EXPECT_EQ(model->decode_run(shape, 10, core::Duration{0}).steps, 1U);
  EXPECT_EQ(model->decode_run(shape, 10, core::Duration::max()).steps, 10U);
}

TEST(Linear, RejectsImpossibleCoefficients) {
  const auto problem = [](const LinearCoefficients& c) { return Linear::make(c).error().message(); };
  EXPECT_EQ(problem({0.0, 1.0, 0.0, 0.0}), "linear: alpha must be above 0; an engine's step takes some milliseconds");
  EXPECT_EQ(problem({1.0, -1.0, 0.0, 0.0}), "linear: beta must be from 0 to 3600000 ms, is -1");
  EXPECT_EQ(problem({1.0, 0.0, std::numeric_limits<double>::quiet_NaN(), 0.0}),
            "linear: gamma must be from 0 to 3600000 ms, is nan");
  EXPECT_EQ(problem({1.0, 0.0, 0.0, 1e9}), "linear: delta must be from 0 to 3600000 ms, is 1000000000");
}

TEST(Linear, DescribesItselfAsItIsWritten) {
  EXPECT_EQ(Linear::make({10, 0.5, 0.02, 0})->description(), "linear:10,0.5,0.02,0");
}

}  // namespace
}  // namespace penstock::engine
