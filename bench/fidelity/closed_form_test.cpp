#include "fidelity/closed_form.h"

#include <gtest/gtest.h>

#include <vector>

#include "core/random.h"
#include "core/time.h"
#include "engine/engine.h"

namespace penstock::fidelity {
namespace {

engine::Roofline roofline(std::string_view text) { return engine::parse_roofline(text).value(); }

engine::StepShape decoding(std::uint32_t sequences, std::uint64_t context_tokens) {
  engine::StepShape shape;
  shape.decode_sequences = sequences;
  shape.decode_context_tokens = context_tokens;
  return shape;
}

// Requests of 90 to 110 % of the lengths through the simulated engine: each that ends is replaced at once, eight for
// each client. Those of the first and the last round are not counted, since fewer prompts are computed beside them.
ServingEstimate simulated(const engine::Roofline& replica, const ServingPoint& point) {
  engine::EngineConfig config;
  config.block_tokens = 16;
  config.attention_ranks = replica.spec().attention_ranks;
  config.kv_blocks = point.concurrency * ((point.input_tokens + point.output_tokens) * 11 / 160 + 2);
  config.max_sequences = point.concurrency;
  config.max_batched_tokens = 8192 * config.attention_ranks;
  config.prefix_caching = false;
  engine::Engine engine{config, replica};
  const std::uint32_t requests = 8 * point.concurrency;
  std::vector<core::Instant> first(requests);
  std::vector<std::uint32_t> outputs(requests);
  core::RandomStream random{1};
  const auto about = [&](std::uint32_t tokens) {
    return tokens * 9 / 10 + static_cast<std::uint32_t>(random.below(tokens / 5 + 1));
  };
  std::uint32_t next = 0;
  const auto submit = [&](core::Instant now) {
    engine::EngineRequest request;
    request.request = next++;
    request.input_tokens = about(point.input_tokens);
    request.output_tokens = outputs[request.request] = about(point.output_tokens);
    engine.submit(request, now);
  };
  while (next < point.concurrency) submit(core::Instant{});
  ServingEstimate sum;
  std::vector<engine::EngineEvent> events;
  for (std::uint32_t done = 0; done < requests;) {
    const core::Instant now = engine.next_event();
    events.clear();
    engine.advance(now, events);
    for (const engine::EngineEvent& event : events) {
      if (event.kind == engine::EngineEventKind::kFirstToken) first[event.request] = event.at;
      if (event.kind != engine::EngineEventKind::kCompleted) continue;
      if (event.request >= point.concurrency && event.request < requests - point.concurrency)
        sum.tpot_ms += core::to_milliseconds(event.at - first[event.request]) / (outputs[event.request] - 1) /
                       (requests - 2 * point.concurrency);
      ++done;
      if (next < requests) submit(event.at);
    }
  }
  return sum;
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

TEST(ClosedForm, TheSimulationAgreesWithAndWithoutAttentionRanks) {
  for (const char* text : {"llama-3.1-70b,h100,tp=4,precision=fp8", "deepseek-v3,b200,tp=8,precision=fp8",
                           "deepseek-v3,b200,tp=8,attention_ranks=8,precision=fp8",
                           "deepseek-v3,b200,tp=16,attention_ranks=16,precision=fp8,backend=sglang"}) {
    const auto replica = roofline(text);
    const ServingPoint point{4000, 500, 128};
    EXPECT_NEAR(simulated(replica, point).tpot_ms / aggregated_serving(replica, point).tpot_ms, 1.0, 0.05) << text;
  }
}

TEST(ClosedForm, WideAttentionDataParallelismIsNotChargedAllReduces) {
  // AIConfigurator 0.12 estimates 40.9 ms at this point; all-reduces of every token among 16 GPUs made it 194.
  const auto replica = roofline("deepseek-v3,b200,tp=16,attention_ranks=16,precision=fp8,backend=sglang");
  const double tpot_ms = aggregated_serving(replica, {4000, 500, 512}).tpot_ms;
  EXPECT_GT(tpot_ms, 25.0);
  EXPECT_LT(tpot_ms, 65.0);
}

TEST(ClosedForm, TtftIsTheSumOfItsTerms) {
  const auto replica = roofline("llama-3.1-8b,h100");
  const double decode_ms = replica.step_ms(decoding(8, 8 * 1100));
  auto mixed = decoding(8, 8 * 1100);
  mixed.prefill_requests = 1;
  mixed.prefill_new_tokens = 1000;
  mixed.prefill_attention_pairs = 1000.0 * 1001 / 2;
  const double prompt_ms = replica.step_ms(mixed) - decode_ms;
  for (const LoadTest test : {LoadTest::kMixedLengths, LoadTest::kEqualLengths}) {
    const ClosedLoop loop = closed_loop_of(engine::Backend::kVllm, test, false);
    EXPECT_NEAR(
        aggregated_serving(replica, {1000, 200, 8, test}).ttft_ms,
        loop.fixed_ms + loop.prompts * prompt_ms + loop.burst_share * 7 * prompt_ms + loop.steps_waited * decode_ms,
        1e-9);
  }
}

}  // namespace
}  // namespace penstock::fidelity
