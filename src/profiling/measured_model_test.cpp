#include "profiling/measured_model.h"

#include <gtest/gtest.h>

#include <cmath>

namespace penstock::profiling {
namespace {

MeasuredPoints linear_points() {
  MeasuredPoints points;
  for (const double tokens : {64.0, 512.0, 4096.0}) points.prompts.push_back({tokens, 12.0 + 0.02 * tokens});
  for (const double context : {128.0, 2048.0})
    for (const double sequences : {1.0, 8.0, 32.0})
      points.steps.push_back({context, sequences, context, 10.0 + 0.2 * sequences + 1e-4 * sequences * context});
  return points;
}

std::string error_of(const MeasuredPoints& points) {
  const auto model = MeasuredModel::make(points);
  return model ? std::string{} : model.error().message();
}

TEST(MeasuredModel, LinearTimesAreExactBetweenAndBeyondThePoints) {
  const auto model = MeasuredModel::make(linear_points());
  ASSERT_TRUE(model.has_value());
  for (const double sequences : {1.0, 5.0, 20.0, 64.0})
    for (const double context : {64.0, 128.0, 700.0, 4000.0})
      EXPECT_NEAR(model->decode_ms(sequences, context), 10.0 + 0.2 * sequences + 1e-4 * sequences * context, 1e-9);
  EXPECT_NEAR(model->prefill_ms(1000), 32.0, 1e-9);
  EXPECT_NEAR(model->prefill_added_ms(1000), 22.0, 1e-9);
  EXPECT_EQ(model->most_sequences(), 32);
  EXPECT_EQ(model->most_kv_tokens(), 32 * 2048);
}

TEST(MeasuredModel, TimesNeverFallBecauseOfNoise) {
  MeasuredPoints points = linear_points();
  points.steps[1].step_ms = 9.0;  // Below the step of one sequence.
  points.prompts[1].ttft_ms = 13.0;
  const auto model = MeasuredModel::make(points);
  ASSERT_TRUE(model.has_value());
  double before = 0.0;
  for (double sequences = 1.0; sequences <= 32.0; ++sequences) {
    EXPECT_GE(model->decode_ms(sequences, 128), before - 1e-9) << sequences;
    before = model->decode_ms(sequences, 128);
  }
}

TEST(MeasuredModel, CurvesDoNotOvershoot) {
  MeasuredPoints points;
  points.prompts = {{64, 20}, {4096, 90}};
  for (const auto& [sequences, ms] : {std::pair{1.0, 10.0}, {2.0, 10.0}, {4.0, 10.0}, {8.0, 30.0}, {16.0, 30.0}})
    points.steps.push_back({128, sequences, 128, ms});
  const auto model = MeasuredModel::make(points);
  ASSERT_TRUE(model.has_value());
  EXPECT_NEAR(model->decode_ms(3, 128), 10.0, 1e-9);
  EXPECT_NEAR(model->decode_ms(12, 128), 30.0, 1e-9);
  EXPECT_GT(model->decode_ms(6, 128), 10.0);
}

TEST(MeasuredModel, HolesAndUnusableTimesAreNamed) {
  MeasuredPoints points = linear_points();
  points.steps.erase(points.steps.begin() + 3);
  EXPECT_EQ(error_of(points), "decode steps of 2,048 tokens: a step of one sequence was not measured");
  points = linear_points();
  points.prompts.resize(1);
  EXPECT_EQ(error_of(points), "prompts: fewer than two lengths were measured");
  points = linear_points();
  points.steps.clear();
  EXPECT_EQ(error_of(points), "decode steps: none was measured");
  points = linear_points();
  points.steps[4].step_ms = std::nan("");
  EXPECT_NE(error_of(points).find("decode step of 8 sequences of 2,048 tokens: must be a time above 0"),
            std::string::npos)
      << error_of(points);
  points = linear_points();
  points.prompts.push_back(points.prompts.front());
  EXPECT_EQ(error_of(points), "prompts: a length was measured twice");
}

}  // namespace
}  // namespace penstock::profiling
