#include "fidelity/closed_form.h"

#include <gtest/gtest.h>

namespace penstock::fidelity {
namespace {

engine::Roofline roofline(std::string_view text) { return engine::parse_roofline(text).value(); }

engine::StepShape decoding(std::uint32_t sequences, std::uint64_t context_tokens) {
  engine::StepShape shape;
  shape.decode_sequences = sequences;
  shape.decode_context_tokens = context_tokens;
  return shape;
}

TEST(ClosedForm, OneRequestAloneDecodesAtItsMeanContext) {
  const auto replica = roofline("llama-3.1-8b,h100");
  const auto estimate = aggregated_serving(replica, {1000, 200, 1});
  EXPECT_DOUBLE_EQ(estimate.tpot_ms, replica.step_ms(decoding(1, 1100)));
  EXPECT_DOUBLE_EQ(estimate.running, 1.0);
}

TEST(ClosedForm, EveryOtherRequestAddsOnePromptToALifetime) {
  const auto replica = roofline("llama-3.1-8b,h100");
  const auto base = decoding(8, 8 * 1100);
  auto mixed = base;
  mixed.prefill_requests = 1;
  mixed.prefill_new_tokens = 1000;
  mixed.prefill_attention_pairs = 1000.0 * 1001 / 2;
  const double prompt_ms = replica.step_ms(mixed) - replica.step_ms(base);
  EXPECT_NEAR(aggregated_serving(replica, {1000, 200, 8}).tpot_ms, replica.step_ms(base) + 7.0 / 200 * prompt_ms, 1e-9);
}

TEST(ClosedForm, AFullCacheLimitsRunningRequests) {
  const auto replica = roofline("llama-3.1-70b,h100,tp=2,precision=fp8");
  const double fits = calibration_kv_tokens(replica.spec()) / (8000 + 500);
  const auto estimate = aggregated_serving(replica, {8000, 1000, 500});
  EXPECT_NEAR(estimate.running, fits, 1e-9);
  const auto twice = aggregated_serving(replica, {8000, 1000, 1000});
  EXPECT_NEAR(twice.tpot_ms, estimate.tpot_ms, 1e-9);
  EXPECT_GT(twice.ttft_ms, 1.9 * estimate.ttft_ms);
  EXPECT_NEAR(twice.output_tokens_per_s / estimate.output_tokens_per_s, 1.0, 0.02);
}

TEST(ClosedForm, MoreRequestsMeanMoreTokensAndMoreTimeForEach) {
  const auto replica = roofline("qwen3-32b,h200,tp=2,precision=fp8,backend=trtllm");
  ServingEstimate last = aggregated_serving(replica, {2000, 500, 1});
  for (std::uint32_t concurrency = 2; concurrency <= 256; concurrency *= 2) {
    const auto now = aggregated_serving(replica, {2000, 500, concurrency});
    EXPECT_GT(now.tpot_ms, last.tpot_ms);
    EXPECT_GT(now.ttft_ms, last.ttft_ms);
    EXPECT_GT(now.output_tokens_per_s, last.output_tokens_per_s);
    last = now;
  }
}

TEST(ClosedForm, ThroughputFollowsLittlesLaw) {
  const auto estimate = aggregated_serving(roofline("llama-3.1-8b,h100"), {1000, 200, 16});
  EXPECT_NEAR(estimate.output_tokens_per_s, 16 * 200 / ((estimate.ttft_ms + 200 * estimate.tpot_ms) / 1e3), 1e-6);
}

TEST(ClosedForm, TheDecodeSideAloneHasNoPrompts) {
  const auto replica = roofline("llama-3.1-8b,h100");
  const auto estimate = decode_serving(replica, {1000, 200, 32});
  EXPECT_DOUBLE_EQ(estimate.tpot_ms, replica.step_ms(decoding(32, 32 * 1100)));
  EXPECT_LT(estimate.tpot_ms, aggregated_serving(replica, {1000, 200, 32}).tpot_ms);
  EXPECT_EQ(estimate.ttft_ms, 0.0);
}

}  // namespace
}  // namespace penstock::fidelity
