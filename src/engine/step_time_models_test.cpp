#include "engine/step_time_models.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "core/random.h"
#include "engine/engine_data_testing.h"

namespace penstock::engine {
namespace {

std::string problem(std::string_view spec) {
  const auto model = make_step_time_model(spec);
  return model ? "" : model.error().message();
}

constexpr const char* kProfile = R"({"prefill_isl": [100, 1000, 8000], "prefill_ttft_ms": [20, 50, 400],
  "decode_active_kv_tokens": [100, 5000, 200000, 300, 9000, 150000],
  "decode_context_length": [100, 100, 100, 3000, 3000, 3000],
  "decode_itl": [4, 6, 31, 5, 6.5, 22]})";

std::shared_ptr<const StepTimeModel> table() {
  const ProfileFile file{"sample.json", testing::bytes_of(kProfile)};
  return make_table_model({&file, 1}).value();
}

TEST(StepTimeModels, EveryFormMakesAModelThatDescribesItself) {
  for (const char* spec :
       {"polynomial", "linear:10,0.1,0.02,0.001", "roofline:llama-3.1-8b,h100_sxm,tp=1,precision=bf16,backend=vllm"}) {
    const auto model = make_step_time_model(spec);
    ASSERT_TRUE(model) << model.error().message();
    EXPECT_EQ((*model)->description(), spec);
  }
  EXPECT_EQ(table()->description(), "table:sample.json");
}

TEST(StepTimeModels, ReadsAProfileFromItsFile) {
  const auto path = std::filesystem::path{::testing::TempDir()} / "penstock_step_time_models_test.json";
  std::ofstream{path} << kProfile;
  const auto model = make_step_time_model(path.string());
  ASSERT_TRUE(model) << model.error().message();
  StepShape shape;
  shape.prefill_requests = 1;
  shape.prefill_new_tokens = 1000;
  EXPECT_EQ((*model)->step(shape), std::chrono::milliseconds{50});
  std::filesystem::remove(path);
}

TEST(StepTimeModels, ErrorsListTheKnownForms) {
  EXPECT_TRUE(problem("quadratic").starts_with("step-time model 'quadratic': is unknown; use polynomial, linear:"));
  EXPECT_TRUE(problem("").starts_with("step-time model '': is unknown; use "));
  EXPECT_EQ(problem("linear:1,2"), "linear: takes 4 numbers, has 2; write linear:ALPHA,BETA,GAMMA,DELTA in ms");
  EXPECT_EQ(problem("linear:1,2,x,4"), "linear: 'x' is not a number; write linear:ALPHA,BETA,GAMMA,DELTA in ms");
  EXPECT_EQ(problem("no/such.json"), "no/such.json: cannot be opened: No such file or directory");
  EXPECT_EQ(problem("table:a,b,c,d,e"), "table: names 5 files, the maximum is 4");
  EXPECT_TRUE(problem("roofline:llama-3.1-8b").starts_with("roofline: needs a model and a GPU; "));
}

TEST(StepTimeModels, ReadsNoFileBeyondItsLimit) {
  const auto path = std::filesystem::path{::testing::TempDir()} / "penstock_step_time_models_long";
  std::ofstream{path} << std::string(100, 'x');
  EXPECT_EQ(read_file(path.string(), 100).value().size(), 100U);
  EXPECT_EQ(read_file(path.string(), 99).error().what, "is longer than 99 bytes");
  std::filesystem::remove(path);
}

TEST(StepTimeModels, EveryBundledProfileReads) {
  const auto folder = testing::engine_data("profiles");
  if (!folder) return;
  for (const auto& entry : std::filesystem::directory_iterator{*folder}) {
    const auto model = make_step_time_model(entry.path().string());
    EXPECT_TRUE(model) << model.error().message();
  }
}

// What decode_run() promises, by its definition.
DecodeRun step_by_step(const StepTimeModel& model, StepShape shape, std::uint32_t steps, core::Duration limit) {
  DecodeRun run;
  while (run.steps < steps && (run.steps == 0 || run.time < limit)) {
    run.time += model.step(shape);
    ++run.steps;
    shape.decode_context_tokens += shape.decode_sequences;
  }
  return run;
}

std::vector<std::shared_ptr<const StepTimeModel>> all_models() {
  std::vector<std::shared_ptr<const StepTimeModel>> models = {table()};
  for (const char* spec :
       {"polynomial", "linear:8,0.05,0.015,0.00004", "linear:0.000001,0,0,0.0000001", "linear:5,0,0,0",
        "roofline:llama-3.1-8b,h100", "roofline:llama-3.1-70b,h200,tp=8,precision=fp8,backend=trtllm",
        "roofline:qwen3-30b-a3b,a100,tp=2", "roofline:deepseek-v3,b200,tp=8,attention_ranks=8,precision=fp4",
        "roofline:gpt-oss-120b,h100,tp=4,precision=fp4", "roofline:glm-5,b300,tp=8,precision=fp8",
        "roofline:qwen3.5-397b-a17b,b300,tp=8,backend=sglang"})
    models.push_back(make_step_time_model(spec).value());
  return models;
}

TEST(StepTimeModelsProperty, ADecodeRunEqualsItsStepsToTheNanosecond) {
  core::RandomStream random{20260101};
  for (const auto& model : all_models()) {
    for (int round = 0; round < 400; ++round) {
      StepShape shape;
      shape.decode_sequences = static_cast<std::uint32_t>(1 + random.below(round % 3 == 0 ? 2 : 512));
      shape.decode_context_tokens = shape.decode_sequences + random.below(round % 2 == 0 ? 1'000'000 : 5'000);
      shape.total_kv_tokens = 1 + random.below(1'500'000);
      shape.active_kv_tokens = random.below(shape.total_kv_tokens + 1);
      const auto steps = static_cast<std::uint32_t>(1 + random.below(300));
      const core::Duration one = model->step(shape);
      // Limits before, at, and between the ends of steps, and none.
      const core::Duration limits[] = {
          core::Duration{0},
          one,
          one * 3,
          one * 3 + core::Duration{1},
          core::Duration{static_cast<std::int64_t>(random.uniform(0.0, 200.0) * static_cast<double>(one.count()))},
          core::Duration::max()};
      for (const core::Duration limit : limits) {
        const DecodeRun run = model->decode_run(shape, steps, limit);
        const DecodeRun expected = step_by_step(*model, shape, steps, limit);
        ASSERT_EQ(run.steps, expected.steps)
            << model->description() << " round " << round << " limit " << limit.count();
        ASSERT_EQ(run.time, expected.time) << model->description() << " round " << round << " limit " << limit.count();
      }
    }
  }
}

TEST(StepTimeModelsProperty, ARunCutAnywhereTakesTheSameTime) {
  core::RandomStream random{7};
  for (const auto& model : all_models()) {
    StepShape shape;
    shape.decode_sequences = 37;
    shape.decode_context_tokens = 37 * 900;
    shape.total_kv_tokens = 1'000'000;
    shape.active_kv_tokens = 40'000;
    const DecodeRun whole = model->decode_run(shape, 200, core::Duration::max());
    core::Duration parts{};
    for (std::uint32_t left = 200; left > 0;) {
      const auto steps = static_cast<std::uint32_t>(1 + random.below(left));
      parts += model->decode_run(shape, steps, core::Duration::max()).time;
      shape.decode_context_tokens += std::uint64_t{steps} * shape.decode_sequences;
      left -= steps;
    }
    EXPECT_EQ(parts, whole.time) << model->description();
  }
}

TEST(StepTimeModelsProperty, EveryStepTakesAPositiveFiniteTime) {
  core::RandomStream random{11};
  for (const auto& model : all_models()) {
    for (int round = 0; round < 500; ++round) {
      StepShape shape;
      shape.prefill_new_tokens = random.below(2) * random.below(200'000);
      shape.prefill_requests = shape.prefill_new_tokens > 0 ? 1 : 0;
      shape.prefill_context_tokens = shape.prefill_requests * random.below(1'000'000);
      const auto fresh = static_cast<double>(shape.prefill_new_tokens);
      shape.prefill_attention_pairs = fresh * (static_cast<double>(shape.prefill_context_tokens) + (fresh + 1) / 2);
      shape.decode_sequences = static_cast<std::uint32_t>(random.below(4096)) + (shape.prefill_requests == 0 ? 1 : 0);
      shape.decode_context_tokens = shape.decode_sequences * (1 + random.below(100'000));
      shape.total_kv_tokens = 1'000'000;
      shape.active_kv_tokens = random.below(1'000'001);
      const core::Duration time = model->step(shape);
      EXPECT_GT(time.count(), 0) << model->description();
      EXPECT_LT(time, std::chrono::hours{24}) << model->description();
    }
  }
}

}  // namespace
}  // namespace penstock::engine
