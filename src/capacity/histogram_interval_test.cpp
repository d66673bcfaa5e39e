#include "capacity/histogram_interval.h"

#include <gtest/gtest.h>

#include "capacity/step_time_correction.h"
#include "engine/polynomial.h"

namespace penstock::capacity {
namespace {

using signals::EngineSample;

// A vLLM that decodes two sequences at a time, in steps of a given length.
EngineSample vllm(double seconds, double step_s) {
  EngineSample sample;
  sample.sampled_at = core::kStart + core::from_seconds(seconds);
  sample.running_requests = 2;
  sample.kv_used_tokens = 600;
  sample.kv_capacity_tokens = 1'048'576;
  const double steps = seconds / step_s;
  const auto count = [](double value) { return static_cast<std::uint64_t>(value); };
  sample.iterations_total = count(steps);
  sample.generation_tokens_total = count(steps * 2.0);
  sample.ttft_s = telemetry::HistogramTotals{count(steps * 2.0 / 64.0), 0.0};  // 64 tokens a request.
  sample.prompt_tokens_total = sample.ttft_s->count * 100;
  const std::uint64_t gaps = *sample.generation_tokens_total - sample.ttft_s->count;
  sample.itl_s = telemetry::HistogramTotals{gaps, static_cast<double>(gaps) * step_s};
  return sample;
}

TEST(HistogramInterval, HasTheStepsAndTheTimeOfTheEngine) {
  const auto interval = histogram_interval(vllm(10.0, 0.020), vllm(15.0, 0.020));
  ASSERT_TRUE(interval);
  EXPECT_TRUE(is_plausible(*interval));
  EXPECT_EQ(interval->elapsed, std::chrono::seconds{5});
  EXPECT_NEAR(static_cast<double>(interval->done.steps()), 250.0, 2.0);
  EXPECT_NEAR(core::to_seconds(interval->done.busy()), 5.0, 0.05);
  EXPECT_NEAR(static_cast<double>(interval->done.prefill_new_tokens), 100.0 * 500.0 / 64.0, 101.0);
}

TEST(HistogramInterval, CountsStepsByRunningRequestsWithoutIterations) {
  EngineSample before = vllm(10.0, 0.020), after = vllm(15.0, 0.020);
  for (EngineSample* sample : {&before, &after}) {
    sample->iterations_total.reset();
    sample->kv_used_tokens.reset();
    sample->kv_capacity_tokens.reset();
  }
  const auto interval = histogram_interval(before, after);
  ASSERT_TRUE(interval);
  EXPECT_TRUE(is_plausible(*interval));
  EXPECT_NEAR(static_cast<double>(interval->done.steps()), 250.0, 8.0);
}

TEST(HistogramInterval, IsEmptyWithoutGaps) {
  EngineSample before = vllm(10.0, 0.020), after = vllm(15.0, 0.020);
  EXPECT_FALSE(histogram_interval(before, before));
  after.itl_s.reset();
  EXPECT_FALSE(histogram_interval(before, after));
}

TEST(HistogramInterval, ADecreasedCounterIsARestart) {
  EXPECT_TRUE(histograms_went_back(vllm(15.0, 0.020), vllm(10.0, 0.020)));
  EXPECT_FALSE(histograms_went_back(vllm(10.0, 0.020), vllm(15.0, 0.020)));
  EXPECT_FALSE(histograms_went_back(EngineSample{}, vllm(15.0, 0.020)));
}

// Without iterations in detail, the corrected profile predicts the measured gap within 10 %.
TEST(HistogramInterval, CorrectsStepTimesOfEnginesWithoutIterations) {
  const auto profile = std::make_shared<const engine::Polynomial>();
  for (const double step_s : {0.004, 0.020, 0.040}) {
    StepTimeCorrection correction{profile};
    core::Instant now;
    for (int tick = 1; tick <= 30; ++tick) {
      now = core::kStart + tick * std::chrono::seconds{5};
      signals::PoolObservation pool;
      pool.replicas.push_back({0, signals::ReplicaState::kReady, {}, vllm(tick * 5.0, step_s)});
      correction.observe(pool, now);
    }
    ASSERT_TRUE(correction.factor()) << step_s;
    ASSERT_TRUE(correction.error()) << step_s;
    EXPECT_LT(*correction.error(), 0.1) << step_s;
    EXPECT_EQ(correction.rejected(), 0U) << step_s;
    const auto interval = histogram_interval(vllm(10.0, step_s), vllm(15.0, step_s));
    const double predicted_ms =
        *correction.factor() * predicted_busy_ms(*profile, *interval) / static_cast<double>(interval->done.steps());
    EXPECT_NEAR(predicted_ms, step_s * 1e3, step_s * 100.0);
  }
}

}  // namespace
}  // namespace penstock::capacity
