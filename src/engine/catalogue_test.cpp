#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "engine/gpu_catalogue.h"
#include "engine/model_catalogue.h"

namespace penstock::engine {
namespace {

TEST(ModelCatalogue, FindsModelsByTheNamesTheyArePublishedUnder) {
  const auto name_of_found = [](std::string_view name) {
    const ModelCard* model = find_model(name);
    return model == nullptr ? "" : std::string{model->name};
  };
  EXPECT_EQ(name_of_found("nvidia/Llama-3.1-8B-Instruct-FP8"), "llama-3.1-8b");
  EXPECT_EQ(name_of_found("meta-llama/Meta-Llama-3.1-70B-Instruct"), "llama-3.1-70b");
  EXPECT_EQ(name_of_found("deepseek-ai/DeepSeek-R1-0528"), "deepseek-v3");
  EXPECT_EQ(name_of_found("QWEN3-32B"), "qwen3-32b");
  EXPECT_EQ(name_of_found(""), "");
  EXPECT_EQ(name_of_found("llama"), "");
}

// Published sizes in 1e9: all parameters, and those that a token meets.
TEST(ModelCatalogue, ParametersAddUpToThePublishedSizes) {
  const struct {
    const char* name;
    double total, active;
  } sizes[] = {{"llama-3.2-1b", 1.5, 1.0},   {"llama-3.1-8b", 8.0, 7.0},   {"llama-3.1-70b", 70.6, 68.5},
               {"llama-3.1-405b", 405, 401}, {"qwen2.5-72b", 72.7, 70.2},  {"qwen3-32b", 32.8, 31.2},
               {"mixtral-8x7b", 46.7, 12.6}, {"qwen3-30b-a3b", 30.5, 2.7}, {"qwen3-235b-a22b", 235, 21},
               {"gpt-oss-120b", 117, 4.6},   {"gpt-oss-20b", 21, 3.0},     {"deepseek-v3", 671, 36},
               {"minimax-m2.5", 229, 9.2},   {"kimi-k2.5", 1030, 31}};
  for (const auto& [name, total, active] : sizes) {
    const ModelCard* model = find_model(name);
    ASSERT_NE(model, nullptr) << name;
    EXPECT_NEAR(model->parameters() / 1e9 / total, 1.0, 0.05) << name << " " << model->parameters() / 1e9;
    EXPECT_NEAR(model->active_parameters() / 1e9 / active, 1.0, 0.08)
        << name << " " << model->active_parameters() / 1e9;
  }
}

TEST(ModelCatalogue, NamesAreUnique) {
  std::set<std::string_view> names;
  for (const ModelCard& model : model_catalogue()) EXPECT_TRUE(names.insert(model.name).second) << model.name;
}

TEST(ModelCatalogue, ABatchTouchesExpertsAsIndependentDraws) {
  const ModelCard* model = find_model("qwen3-30b-a3b");  // 8 of 128
  EXPECT_NEAR(model->experts_touched(1), 8.0 / 128, 1e-12);
  EXPECT_NEAR(model->experts_touched(2), 1 - std::pow(120.0 / 128, 2), 1e-12);
  EXPECT_NEAR(model->experts_touched(10000), 1.0, 1e-9);
  EXPECT_EQ(find_model("llama-3.1-8b")->experts_touched(5), 0.0);
}

TEST(GpuCatalogue, FindsCardsByFullOrShortName) {
  EXPECT_EQ(find_gpu("H100")->name, "h100_sxm");
  EXPECT_EQ(find_gpu("a100_pcie")->name, "a100_pcie");
  EXPECT_EQ(find_gpu("h1"), nullptr);
  EXPECT_EQ(find_gpu(""), nullptr);
}

TEST(GpuCatalogue, NarrowerNumbersAreNeverSlower) {
  for (const GpuCard& gpu : gpu_catalogue()) {
    EXPECT_GE(gpu.fp8_tflops, gpu.bf16_tflops) << gpu.name;
    EXPECT_GE(gpu.fp4_tflops, gpu.fp8_tflops) << gpu.name;
  }
}

TEST(Precision, NamesReadBack) {
  for (const Precision each : {Precision::kBf16, Precision::kFp8, Precision::kFp4, Precision::kInt4}) {
    Precision read{};
    EXPECT_TRUE(parse_precision(name_of(each), read));
    EXPECT_EQ(read, each);
  }
  Precision unused{};
  EXPECT_FALSE(parse_precision("fp16x", unused));
}

}  // namespace
}  // namespace penstock::engine
