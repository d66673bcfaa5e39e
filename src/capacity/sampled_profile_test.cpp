#include "capacity/sampled_profile.h"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>

#include "core/random.h"
#include "engine/step_time_models.h"

namespace penstock::capacity {
namespace {

using Model = std::shared_ptr<const engine::StepTimeModel>;

Model model_of(std::string_view spec) { return *engine::make_step_time_model(spec); }

Model read_back(const engine::StepTimeModel& model, const EngineLimits& limits) {
  const std::string json = profile_json(sample_profile(model, limits), model.description());
  const engine::ProfileFile file{"sampled.json", {reinterpret_cast<const std::uint8_t*>(json.data()), json.size()}};
  auto table = engine::make_table_model({&file, 1});
  EXPECT_TRUE(table.has_value()) << table.error().message();
  return *std::move(table);
}

// The greatest relative difference over random steps.
double worst_difference(std::string_view spec, bool with_prompts) {
  const EngineLimits limits;
  const Model model = model_of(spec), table = read_back(*model, limits);
  core::RandomStream random{3};
  double worst = 0.0;
  for (int i = 0; i < 2000; ++i) {
    engine::StepShape shape;
    shape.total_kv_tokens = static_cast<std::uint64_t>(limits.kv_tokens);
    shape.decode_sequences = static_cast<std::uint32_t>(1 + random.below(256));
    const double longest = std::min(100'000.0, limits.kv_tokens / shape.decode_sequences);
    const double context = 64.0 * std::exp(random.uniform() * std::log(longest / 64.0));
    shape.decode_context_tokens = static_cast<std::uint64_t>(shape.decode_sequences * context);
    shape.active_kv_tokens = shape.decode_context_tokens;
    if (with_prompts) {
      shape.prefill_requests = 1;
      shape.prefill_new_tokens = 16 + random.below(8000);
      const auto fresh = static_cast<double>(shape.prefill_new_tokens);
      shape.prefill_attention_pairs = fresh * (fresh + 1) / 2;
    }
    const double truth = core::to_milliseconds(model->step(shape)), read = core::to_milliseconds(table->step(shape));
    worst = std::max(worst, std::abs(read / truth - 1.0));
  }
  return worst;
}

TEST(SampledProfile, DecodesAsTheModelDoes) {
  EXPECT_LT(worst_difference("polynomial", false), 0.03);
  EXPECT_LT(worst_difference("linear:8,0.1,0.05,0.00005", false), 0.03);
  EXPECT_LT(worst_difference("roofline:llama-3.1-8b,h100", false), 0.03);
}

TEST(SampledProfile, ComputesPromptsBesideDecodingAsTheModelDoes) {
  EXPECT_LT(worst_difference("polynomial", true), 0.03);
  EXPECT_LT(worst_difference("linear:8,0.1,0.05,0.00005", true), 0.03);
  EXPECT_LT(worst_difference("roofline:llama-3.1-8b,h100", true), 0.10);  // its weights are read once for both
}

TEST(SampledProfile, KeepsTheTtftOfALonePrompt) {
  for (const char* spec : {"polynomial", "linear:8,0.1,0.05,0.00005", "roofline:llama-3.1-8b,h100"}) {
    const EngineLimits limits;
    const Model model = model_of(spec), table = read_back(*model, limits);
    for (const std::uint32_t length : {16U, 100U, 777U, 4096U, 8000U})
      EXPECT_NEAR(lone_ttft_ms(*table, limits, length) / lone_ttft_ms(*model, limits, length), 1.0, 0.03)
          << spec << " " << length;
  }
}

TEST(SampledProfile, StaysWithinASmallCache) {
  const engine::EngineProfile profile = sample_profile(*model_of("polynomial"), {4, 512, 1000});
  EXPECT_EQ(profile.prefill.back().x, 1000);
  EXPECT_EQ(profile.decode.back().context_tokens, 1000);
  for (const engine::DecodeLine& line : profile.decode) EXPECT_LE(line.points.back().x, 1000);
  EXPECT_EQ(profile.kv_tokens_max, 1000);
  EXPECT_TRUE(sample_profile(*model_of("polynomial"), {4, 512, 10}).decode.empty());
}

TEST(LoneTtft, IsTheSumOfItsChunks) {
  const auto law = model_of("linear:10,1,0.01,0");
  EXPECT_NEAR(lone_ttft_ms(*law, {256, 1000, 1e6}, 2500), 3 * 10 + 25, 1e-6);
  EXPECT_NEAR(lone_ttft_ms(*law, {256, 8192, 1e6}, 2500), 10 + 25, 1e-6);
}

}  // namespace
}  // namespace penstock::capacity
