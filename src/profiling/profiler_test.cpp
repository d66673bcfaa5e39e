#include "profiling/profiler.h"

#include <gtest/gtest.h>

#include <cmath>

#include "engine/linear.h"
#include "engine/step_time_models.h"
#include "profiling/simulated_endpoint_testing.h"

namespace penstock::profiling {
namespace {

std::shared_ptr<const engine::StepTimeModel> model_of(std::string_view spec) {
  auto model = engine::make_step_time_model(spec);
  EXPECT_TRUE(model.has_value());
  return *model;
}

ProfilerOptions small_grid() {
  ProfilerOptions options;
  options.grid = {2048, 16};
  return options;
}

// Returns the error that ended the run; empty if all points were measured.
std::string measure(Profiler& profiler, SimulatedEndpoint& endpoint) {
  while (const auto burst = profiler.next())
    if (const auto taken = profiler.take(*burst, endpoint.run(*burst)); !taken) return taken.error().message();
  return {};
}

double decode_ms(const engine::StepTimeModel& model, double sequences, double context) {
  engine::StepShape shape;
  shape.decode_sequences = static_cast<std::uint32_t>(sequences);
  shape.decode_context_tokens = static_cast<std::uint64_t>(sequences * context);
  shape.active_kv_tokens = shape.decode_context_tokens;
  shape.total_kv_tokens = 1'000'000;
  return core::to_milliseconds(model.step(shape));
}

TEST(Profiler, MeasuredStepTimesAreThoseOfTheEndpoint) {
  for (const char* spec : {"linear:8,0.3,0.02,0.0002", "roofline:llama-3.1-8b,h100"}) {
    const auto truth = model_of(spec);
    SimulatedEndpoint endpoint{*truth};
    Profiler profiler{small_grid()};
    ASSERT_EQ(measure(profiler, endpoint), "") << spec;
    const auto model = profiler.model();
    ASSERT_TRUE(model.has_value()) << model.error().message();
    for (const double sequences : {1.0, 3.0, 6.0, 12.0, 16.0})
      for (const double context : {150.0, 300.0, 900.0, 2000.0})
        EXPECT_NEAR(model->decode_ms(sequences, context) / decode_ms(*truth, sequences, context), 1.0, 0.03)
            << spec << " " << sequences << " " << context;
    for (const std::uint32_t tokens : {100U, 700U, 1500U}) {
      engine::StepShape shape;
      shape.prefill_new_tokens = tokens;
      shape.prefill_attention_pairs = 0.0;
      shape.decode_sequences = 1;
      shape.decode_context_tokens = tokens;
      EXPECT_NEAR(core::to_milliseconds(model->step(shape)) / core::to_milliseconds(truth->step(shape)), 1.0, 0.03)
          << spec << " " << tokens;
    }
  }
}

TEST(Profiler, WithoutUsagePromptsHaveThePlannedLength) {
  const auto truth = model_of("linear:8,0.3,0.02,0.002");
  SimulatedEndpoint endpoint{*truth};
  Profiler profiler{small_grid()};
  while (const auto burst = profiler.next()) {
    std::vector<TimedAnswer> answers = endpoint.run(*burst);
    for (TimedAnswer& answer : answers) answer.prompt_tokens = answer.output_tokens = answer.cached_tokens = 0;
    ASSERT_TRUE(profiler.take(*burst, answers));
  }
  const auto model = profiler.model();
  ASSERT_TRUE(model.has_value()) << model.error().message();
  EXPECT_NEAR(model->longest_context(), 2048.0, 100.0);
  for (const double context : {300.0, 900.0})
    EXPECT_NEAR(model->decode_ms(8, context) / decode_ms(*truth, 8, context), 1.0, 0.1) << context;
}

// A server of a small model delivers the tokens of several steps together.
TEST(Profiler, WindowsAreLongAgainstTokensThatArriveTogether) {
  const auto truth = model_of("linear:1,0.1,0.02,0");
  SimulatedEndpoint endpoint{*truth};
  ProfilerOptions options;
  options.grid = {512, 4};
  Profiler profiler{options};
  while (const auto burst = profiler.next()) {
    std::vector<TimedAnswer> answers = endpoint.run(*burst);
    if (!burst->point.is_prompt())
      for (TimedAnswer& answer : answers)
        for (core::Duration& time : answer.token_times)
          time = core::from_milliseconds(20.0 * std::ceil(core::to_milliseconds(time) / 20.0));
    ASSERT_TRUE(profiler.take(*burst, answers));
  }
  const auto model = profiler.model();
  ASSERT_TRUE(model.has_value()) << model.error().message();
  for (const double sequences : {1.0, 2.0, 4.0})
    EXPECT_NEAR(model->decode_ms(sequences, 300) / decode_ms(*truth, sequences, 300), 1.0, 0.15) << sequences;
}

TEST(Profiler, NoiseOfStepsIsAveragedOut) {
  const auto truth = model_of("linear:10,0.2,0.02,0.0001");
  SimulatedEndpoint endpoint{*truth};
  endpoint.noise = 0.05;
  Profiler profiler{small_grid()};
  ASSERT_EQ(measure(profiler, endpoint), "");
  const auto model = profiler.model();
  ASSERT_TRUE(model.has_value()) << model.error().message();
  for (const double sequences : {1.0, 5.0, 16.0})
    EXPECT_NEAR(model->decode_ms(sequences, 500) / decode_ms(*truth, sequences, 500), 1.0, 0.05) << sequences;
}

TEST(Profiler, LimitOfSequencesIsFoundAndMeasured) {
  const auto truth = model_of("linear:10,1,0.02,0");
  SimulatedEndpoint endpoint{*truth};
  endpoint.sequences_max = 6;
  Profiler profiler{small_grid()};
  ASSERT_EQ(measure(profiler, endpoint), "");
  EXPECT_EQ(profiler.sequences_max(), 6);
  const auto model = profiler.model();
  ASSERT_TRUE(model.has_value()) << model.error().message();
  EXPECT_EQ(model->most_sequences(), 6);
  EXPECT_NEAR(model->decode_ms(6, 500), 16.0, 0.2);
}

// On a busy machine, an answer can begin after another has ended.
TEST(Profiler, AnswersThatAreDelayedTwiceAreNoLimit) {
  const auto truth = model_of("linear:10,1,0.02,0");
  SimulatedEndpoint endpoint{*truth};
  Profiler profiler{small_grid()};
  int delayed = 0;
  while (const auto burst = profiler.next()) {
    std::vector<TimedAnswer> answers = endpoint.run(*burst);
    if (burst->requests == 2 && delayed < 2) {
      ++delayed;
      const core::Duration late = answers[0].token_times.back() - answers[1].token_times.front() + core::Duration{1};
      for (core::Duration& time : answers[1].token_times) time += late;
      endpoint.clock += late;
    }
    ASSERT_TRUE(profiler.take(*burst, answers).has_value());
  }
  EXPECT_EQ(delayed, 2);
  EXPECT_EQ(profiler.sequences_max(), 0);
  const auto model = profiler.model();
  ASSERT_TRUE(model.has_value()) << model.error().message();
  EXPECT_EQ(model->most_sequences(), 16);
}

TEST(Profiler, KvCacheThatIsKnownIsNotExceeded) {
  const auto truth = model_of("linear:10,1,0.02,0");
  SimulatedEndpoint endpoint{*truth};
  ProfilerOptions options = small_grid();
  options.kv_tokens_max = 10'000;
  Profiler profiler{options};
  while (const auto burst = profiler.next()) {
    EXPECT_LE(burst->point.kv_tokens(), 9500U);
    ASSERT_TRUE(profiler.take(*burst, endpoint.run(*burst)).has_value());
  }
  EXPECT_TRUE(profiler.model().has_value());
}

TEST(Profiler, MissingPointIsAHoleThatTheErrorNames) {
  const auto truth = model_of("linear:10,1,0.02,0");
  SimulatedEndpoint endpoint{*truth};
  Profiler profiler{small_grid()};
  while (const auto burst = profiler.next()) {
    if (burst->point.sequences == 4) break;
    ASSERT_TRUE(profiler.take(*burst, endpoint.run(*burst)).has_value());
  }
  EXPECT_FALSE(profiler.has_required());
  const auto model = profiler.model();
  ASSERT_FALSE(model.has_value());
  EXPECT_NE(model.error().message().find("decode step of 4 sequences of 128 tokens: was not measured"),
            std::string::npos)
      << model.error().message();
}

TEST(Profiler, RequiredPointsAloneMakeAProfile) {
  const auto truth = model_of("linear:10,1,0.02,0.0001");
  SimulatedEndpoint endpoint{*truth};
  Profiler profiler{small_grid()};
  while (!profiler.has_required()) {
    const auto burst = profiler.next();
    ASSERT_TRUE(burst.has_value());
    ASSERT_TRUE(profiler.take(*burst, endpoint.run(*burst)).has_value());
  }
  const Progress progress = profiler.progress();
  EXPECT_LT(progress.measured, progress.total);
  EXPECT_GT(progress.remaining, core::Duration{});
  const auto model = profiler.model();
  ASSERT_TRUE(model.has_value()) << model.error().message();
  EXPECT_NEAR(model->decode_ms(8, 1000) / decode_ms(*truth, 8, 1000), 1.0, 0.03);
}

TEST(Profiler, ContinuedMeasurementsSendNothingTwice) {
  const auto truth = model_of("linear:10,1,0.02,0");
  SimulatedEndpoint whole{*truth};
  Profiler reference{small_grid()};
  ASSERT_EQ(measure(reference, whole), "");

  SimulatedEndpoint endpoint{*truth};
  Profiler first{small_grid()};
  for (int i = 0; i < 20; ++i) {
    const auto burst = first.next();
    ASSERT_TRUE(burst.has_value() && first.take(*burst, endpoint.run(*burst)).has_value());
  }
  Profiler second{small_grid(), first.state()};
  ASSERT_EQ(measure(second, endpoint), "");
  EXPECT_EQ(endpoint.requests, whole.requests + 4);  // Each run has four warm-up requests.
  EXPECT_EQ(second.progress().measured, second.progress().total);
}

TEST(Profiler, ContradictoryTimesEndTheRun) {
  const auto truth = model_of("linear:10,1,0.02,0");
  SimulatedEndpoint endpoint{*truth};
  Profiler profiler{small_grid()};
  std::string error;
  for (int i = 0; error.empty(); ++i) {
    const auto burst = profiler.next();
    ASSERT_TRUE(burst.has_value());
    // Every time of a point is another one.
    auto answers = endpoint.run(*burst);
    for (TimedAnswer& answer : answers)
      for (core::Duration& time : answer.token_times) time = answer.sent + (time - answer.sent) * (1 + i % 7);
    if (const auto taken = profiler.take(*burst, answers); !taken) error = taken.error().message();
  }
  EXPECT_NE(error.find("prompt of 64 tokens: took from"), std::string::npos) << error;
  EXPECT_NE(error.find("other traffic"), std::string::npos) << error;
}

TEST(Profiler, CachedPromptsAreRefused) {
  const auto truth = model_of("linear:10,1,0.02,0");
  SimulatedEndpoint endpoint{*truth};
  Profiler profiler{small_grid()};
  std::string error;
  while (error.empty()) {
    const auto burst = profiler.next();
    ASSERT_TRUE(burst.has_value());
    auto answers = endpoint.run(*burst);
    for (TimedAnswer& answer : answers) answer.cached_tokens = answer.prompt_tokens / 2;
    if (const auto taken = profiler.take(*burst, answers); !taken) error = taken.error().message();
  }
  EXPECT_NE(error.find("were found in the cache"), std::string::npos) << error;
}

}  // namespace
}  // namespace penstock::profiling
