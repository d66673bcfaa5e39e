#include "capacity/engine_advice.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace penstock::capacity {
namespace {

// 256 sequences of 1,500 + 200 tokens, which need 435,200 KV tokens.
SizingRequest advised_request() {
  SizingRequest request;
  request.engine.model = engine::find_model("llama-3.1-8b");
  request.engine.gpu = engine::find_gpu("h100_sxm");
  request.engine.precision = engine::Precision::kFp8;
  request.traffic = {1500.0, 200.0, 0.0};
  request.slo.ttft = std::chrono::seconds{2};
  request.slo.itl = std::chrono::milliseconds{50};
  return request;
}

// A replica with 600,000 KV tokens and 8 GiB of weights that uses 60 % of its capacity: no rule holds.
SizingAdvice advised_sizing() {
  SizingAdvice sizing;
  SizingChoice& best = sizing.choices.emplace_back();
  best.memory.tokens = 600'000.0;
  best.memory.weights_gib = 8.0;
  best.utilisation = 0.6;
  sizing.best = 0;
  return sizing;
}

std::string rules_of_advice(const SizingRequest& request, const SizingAdvice& sizing,
                            const EngineMeasurement& measured = {}) {
  std::string rules;
  for (const EngineAdvice& each : engine_advice(request, sizing, measured))
    rules += (rules.empty() ? "" : " ") + std::string{each.rule};
  return rules;
}

TEST(EngineAdvice, WithoutEvidenceThereIsNone) { EXPECT_EQ(rules_of_advice(advised_request(), advised_sizing()), ""); }

TEST(EngineAdvice, HealthyLatencyAtHighUtilisationAllowsMoreQueueDelay) {
  struct Row {
    double ttft_s, itl_s, utilisation;
    bool holds;
  };
  // Limits of 2 s and 50 ms, of which 0.8 is 1.6 s and 40 ms.
  for (const Row& row : {Row{1.5, 0.039, 0.8, true}, Row{1.7, 0.039, 0.8, false}, Row{1.5, 0.041, 0.8, false},
                         Row{1.5, 0.039, 0.79, false}}) {
    const EngineMeasurement measured{row.ttft_s, row.itl_s, row.utilisation, {}, {}};
    EXPECT_EQ(rules_of_advice(advised_request(), advised_sizing(), measured), row.holds ? "queue_delay" : "");
  }
  const EngineAdvice made = engine_advice(advised_request(), advised_sizing(), {1.5, 0.03, 0.9, {}, {}}).front();
  EXPECT_EQ(made.evidence, "the p95 of TTFT is 75 % and that of ITL 60 % of its limit, at 90 % utilisation");
  EXPECT_EQ(rules_of_advice(advised_request(), advised_sizing(), {1.5, {}, 0.9, {}, {}}), "") << "missing is not zero";
}

TEST(EngineAdvice, AFallOfBatchEfficiencyByATenthAsksForMoreConcurrency) {
  const auto rules = [](std::optional<double> now, std::optional<double> before) {
    return rules_of_advice(advised_request(), advised_sizing(), {{}, {}, {}, now, before});
  };
  EXPECT_EQ(rules(0.53, 0.6), "batch_efficiency");
  EXPECT_EQ(rules(0.55, 0.6), "");
  EXPECT_EQ(rules(0.7, 0.6), "");
  EXPECT_EQ(rules(0.1, {}), "");
}

TEST(EngineAdvice, SequencesLeaveAReserveOfTheKvCache) {
  SizingAdvice sizing = advised_sizing();
  sizing.choices[0].memory.tokens = 512'000.0;  // 85 % are 435,200.
  EXPECT_EQ(rules_of_advice(advised_request(), sizing), "");
  sizing.choices[0].memory.tokens = 200'000.0;  // 170,000 of which are 100 sequences of 1,700 tokens.
  const EngineAdvice made = engine_advice(advised_request(), sizing, {}).front();
  EXPECT_EQ(made.rule, "kv_reserve");
  EXPECT_EQ(made.vllm, "--max-num-seqs 100");
  EXPECT_EQ(made.sglang, "--max-running-requests 100");
  EXPECT_EQ(made.evidence, "256 sequences of 1700 tokens need 435200 KV tokens, the cache has 200000");
}

TEST(EngineAdvice, SixteenBitsAreComparedWithEight) {
  SizingRequest request = advised_request();
  request.engine.precision = engine::Precision::kBf16;
  EXPECT_EQ(engine_advice(request, advised_sizing(), {}).front().vllm, "--quantization fp8");
  request.engine.gpu = engine::find_gpu("a100_sxm");
  const EngineAdvice made = engine_advice(request, advised_sizing(), {}).front();
  EXPECT_EQ(made.sglang, "--quantization w8a8_int8") << "an A100 has no FP8 units";
  EXPECT_NE(made.effect.find("40 to 60 %"), std::string_view::npos);
}

TEST(EngineAdvice, LowLoadLongPromptsAndLargeWeightsHaveAdviceOfTheirOwn) {
  SizingAdvice sizing = advised_sizing();
  sizing.choices[0].utilisation = 0.49;
  EXPECT_EQ(rules_of_advice(advised_request(), sizing), "speculative_decoding");
  sizing = advised_sizing();
  sizing.choices[0].memory.weights_gib = 5.0;
  sizing.choices[0].tensor_parallel = 2;  // 10 GiB.
  EXPECT_EQ(rules_of_advice(advised_request(), sizing), "weights_cache");
  SizingRequest request = advised_request();
  request.max_sequences = 16;
  request.traffic = {16'000.0, 200.0, 0.5};  // 8,000 are computed.
  EXPECT_EQ(rules_of_advice(request, advised_sizing()), "gpu_by_phase");
  request.traffic.cached_share = 0.51;
  EXPECT_EQ(rules_of_advice(request, advised_sizing()), "");
}

TEST(EngineAdvice, NothingThatServesLeavesThePrecision) {
  SizingRequest request = advised_request();
  request.engine.precision = engine::Precision::kBf16;
  SizingAdvice none = advised_sizing();
  none.best.reset();
  ASSERT_EQ(rules_of_advice(request, none), "precision");
  EXPECT_NE(engine_advice(request, none, {}).front().evidence.find("nothing serves in 16 bit"), std::string::npos);
}

}  // namespace
}  // namespace penstock::capacity
