#include "engine/table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "engine/engine_data_testing.h"
#include "engine/step_time_models.h"

namespace penstock::engine {
namespace {

// Prefill 20 ms at 100 tokens, 50 at 1000, 110 at 2000. Decode: context 100: 4, 6, 12 ms at 100, 1000, 2000 KV tokens;
// context 300: 5, 9 ms at 300, 1500.
Table sample() {
  EngineProfile profile;
  profile.prefill = {{100, 20}, {1000, 50}, {2000, 110}};
  profile.decode = {{100, {{100, 4}, {1000, 6}, {2000, 12}}}, {300, {{300, 5}, {1500, 9}}}};
  return {std::move(profile), "sample"};
}

TEST(Table, PrefillIsLinearBetweenMeasuredLengths) {
  EXPECT_DOUBLE_EQ(sample().prefill_ms(100), 20.0);
  EXPECT_DOUBLE_EQ(sample().prefill_ms(550), 35.0);
  EXPECT_DOUBLE_EQ(sample().prefill_ms(2000), 110.0);
}

TEST(Table, PrefillGoesOnBeyondWhatWasMeasured) {
  EXPECT_DOUBLE_EQ(sample().prefill_ms(1), 20.0);
  EXPECT_DOUBLE_EQ(sample().prefill_ms(3000), 170.0);
}

TEST(Table, DecodeInterpolatesOnALineAndBetweenTwo) {
  EXPECT_DOUBLE_EQ(sample().decode_ms(550, 100), 5.0);
  EXPECT_DOUBLE_EQ(sample().decode_ms(900, 300), 7.0);
  EXPECT_DOUBLE_EQ(sample().decode_ms(900, 200), (4.0 + 2.0 * 800 / 900 + 7.0) / 2);
}

TEST(Table, DecodeGoesOnAlongTheWholeLine) {
  EXPECT_DOUBLE_EQ(sample().decode_ms(1, 100), 4.0);
  EXPECT_DOUBLE_EQ(sample().decode_ms(3900, 100), 12.0 + 1900.0 * 8 / 1900);
  EXPECT_DOUBLE_EQ(sample().decode_ms(900, 5000), 7.0);  // the nearest length
  EXPECT_DOUBLE_EQ(sample().decode_ms(550, 10), 5.0);
}

TEST(Table, AFallingEndNeverExtrapolatesDownwards) {
  EngineProfile profile;
  profile.prefill = {{100, 20}, {200, 10}};
  profile.decode = {{1, {{1, 5}, {2, 4}}}};
  const Table table{std::move(profile), "falling"};
  EXPECT_DOUBLE_EQ(table.prefill_ms(1e6), 10.0);
  EXPECT_DOUBLE_EQ(table.decode_ms(1e6, 1), 4.0);
}

TEST(Table, AStepIsItsPromptsAndItsDecode) {
  StepShape shape;
  shape.prefill_requests = 2;
  shape.prefill_new_tokens = 550;
  EXPECT_EQ(sample().step(shape), core::from_milliseconds(35.0));
  shape.decode_sequences = 5;
  shape.decode_context_tokens = 500;
  EXPECT_EQ(sample().step(shape), core::from_milliseconds(35.0 + 4.0 + 2.0 * 400 / 900));
}

TEST(Table, APromptMayAddLessToAStepThatDecodesThanItTakesAlone) {
  EngineProfile profile = sample().profile();
  profile.prefill_added = {{100, 15}, {1000, 45}, {2000, 105}};
  const Table table{std::move(profile), "sample"};
  StepShape shape;
  shape.prefill_requests = 1;
  shape.prefill_new_tokens = 1000;
  EXPECT_EQ(table.step(shape), core::from_milliseconds(50.0));
  shape.decode_sequences = 5;
  shape.decode_context_tokens = 500;
  EXPECT_EQ(table.step(shape), core::from_milliseconds(45.0 + 4.0 + 2.0 * 400 / 900));
}

TEST(Table, MeetsEveryPointOfAMeasuredProfile) {
  const auto prefill = testing::engine_data("dynamo_npz/llama-3.1-8b-fp8_h200_tp1_prefill_raw_data.npz");
  const auto decode = testing::engine_data("dynamo_npz/llama-3.1-8b-fp8_h200_tp1_decode_raw_data.npz");
  if (!prefill || !decode) return;
  const auto model = make_step_time_model("table:" + *prefill + "," + *decode);
  ASSERT_TRUE(model) << model.error().message();
  StepShape shape;
  shape.prefill_requests = 1;
  shape.prefill_new_tokens = 2134;
  EXPECT_NEAR(core::to_milliseconds((*model)->step(shape)), 49.968438, 1e-5);
  shape = {};
  shape.decode_sequences = 1;
  shape.decode_context_tokens = 350;  // 0.00037 of 945,029 tokens
  EXPECT_NEAR(core::to_milliseconds((*model)->step(shape)), 4.379871, 1e-3);
}

TEST(Table, JsonAndNpzOfOneProfileAgree) {
  const auto prefill = testing::engine_data("dynamo_npz/llama-3.1-8b-fp8_h200_tp1_prefill_raw_data.npz");
  const auto decode = testing::engine_data("dynamo_npz/llama-3.1-8b-fp8_h200_tp1_decode_raw_data.npz");
  const auto json = testing::engine_data("profiles/dynamo_measured_llama-3.1-8b-fp8_h200_tp1.json");
  if (!prefill || !decode || !json) return;
  const auto binary = make_step_time_model("table:" + *prefill + "," + *decode), text = make_step_time_model(*json);
  ASSERT_TRUE(binary && text);
  for (std::uint32_t sequences = 1; sequences <= 256; sequences *= 4) {
    StepShape shape;
    shape.decode_sequences = sequences;
    shape.decode_context_tokens = std::uint64_t{sequences} * 1500;
    const double a = core::to_milliseconds((*binary)->step(shape)), b = core::to_milliseconds((*text)->step(shape));
    EXPECT_NEAR(a, b, 2e-3 * std::max(a, b));  // the text has five digits
  }
}

}  // namespace
}  // namespace penstock::engine
