#include "engine/kv_memory.h"

#include <gtest/gtest.h>

#include <cmath>

namespace penstock::engine {
namespace {

constexpr double kGib = 1024.0 * 1024.0 * 1024.0;

RooflineSpec spec_of(const ModelCard& model, std::uint32_t gpus, Precision kv_cache = Precision::kBf16) {
  RooflineSpec spec;
  spec.model = &model;
  spec.gpu = find_gpu("h100");
  spec.tensor_parallel = gpus;
  spec.kv_cache = kv_cache;
  return spec;
}

const ModelCard& known(std::string_view name) { return *find_model(name); }

// Models of the logs that the catalogue lacks; only what the KV cache depends on.
constexpr ModelCard kQwen25of14 = {
    .name = "qwen2.5-14b", .layers = 48, .kv_heads = 8, .head_dim = 128, .value_dim = 128};
constexpr ModelCard kQwen25of1 = {
    .name = "qwen2.5-1.5b", .layers = 28, .kv_heads = 2, .head_dim = 128, .value_dim = 128};
constexpr ModelCard kCodeLlama = {
    .name = "codellama-34b", .layers = 48, .kv_heads = 8, .head_dim = 128, .value_dim = 128};
constexpr ModelCard kSmall = {.name = "small", .layers = 2, .kv_heads = 2, .head_dim = 64, .value_dim = 64};
// Its linear attention has 32 heads of 128 × 128 and a convolution over 8,192 channels, in 16 bit.
constexpr ModelCard kQwen3Next = {.name = "qwen3-next",
                                  .layers = 48,
                                  .kv_heads = 2,
                                  .head_dim = 256,
                                  .value_dim = 256,
                                  .full_layers = 12,
                                  .state_bytes = 32.0 * 128 * 128 * 2 + 8192.0 * 3 * 2};

// Lines `Available KV cache memory` and `GPU KV cache size` of vLLM 0.7 to 0.32; from jobs of its CI and issues.
TEST(KvMemory, TokensAreThoseOfTheLogsOfVllm) {
  const struct {
    const char* log;
    const ModelCard* model;
    std::uint32_t gpus;
    Precision kv_cache;
    double kv_gib;
    double tokens;
  } rows[] = {
      {"A100-40, llama-3.1-8b", &known("llama-3.1-8b"), 1, Precision::kBf16, 19.28, 157'936},
      {"A5000, llama-3.1-8b", &known("llama-3.1-8b"), 1, Precision::kBf16, 5.29, 43'296},
      {"3090, llama-3.1-8b, 20,000", &known("llama-3.1-8b"), 1, Precision::kBf16, 3.81, 31'232},
      {"3090, llama-3.1-8b, 29,000", &known("llama-3.1-8b"), 1, Precision::kBf16, 2.89, 23'648},
      {"H100, qwen2.5-14b", &kQwen25of14, 1, Precision::kBf16, 41.43, 226'240},
      {"H200, qwen2.5-1.5b", &kQwen25of1, 1, Precision::kBf16, 120.53, 4'513'888},
      {"4 H200, llama-3.3-70b", &known("llama-3.3-70b"), 4, Precision::kBf16, 106.17, 1'391'552},
      {"H100, llama-3.3-70b", &known("llama-3.3-70b"), 1, Precision::kFp8, 5.11, 33'504},
      {"8 H200, deepseek-r1", &known("deepseek-r1"), 8, Precision::kBf16, 41.60, 635'648},
      {"4 H100, qwen3-235b-a22b", &known("qwen3-235b-a22b"), 4, Precision::kBf16, 8.11, 178'880},
      {"4 GPUs, minimax-m2.5", &known("minimax-m2.5"), 4, Precision::kBf16, 23.62, 399'424},
      {"4090, qwen3-8b", &known("qwen3-8b"), 1, Precision::kBf16, 6.03, 43'888},
      {"2 GPUs, codellama-34b", &kCodeLlama, 2, Precision::kBf16, 38.97, 425'648},
      {"1 GiB, 2 layers", &kSmall, 1, Precision::kBf16, 1.0, 1'048'576},
      {"1 GiB, deepseek-v3", &known("deepseek-v3"), 1, Precision::kBf16, 1.0, 15'264},
  };
  for (const auto& row : rows) {
    const KvLayout layout = kv_layout(spec_of(*row.model, row.gpus, row.kv_cache), 16);
    const double tokens = static_cast<double>(layout.blocks(row.kv_gib * kGib)) * 16 / layout.full_groups;
    EXPECT_NEAR(tokens / row.tokens, 1.0, 0.013) << row.log;
  }
}

TEST(KvMemory, HybridsTakeBlocksOfOnePool) {
  // 2 H200 with 44.59 GiB: 7,162 blocks of 544 tokens, which the states enlarge, for 14.77 × 262,144 tokens.
  const KvLayout linear = kv_layout(spec_of(kQwen3Next, 2), 16);
  EXPECT_EQ(linear.block_tokens, 544U);
  EXPECT_EQ(linear.state_groups, 3U);
  EXPECT_EQ(linear.blocks(44.59 * kGib), 7162U);
  EXPECT_EQ(linear.blocks_of_request(262'144, 8192), 482U + 3U);
  EXPECT_NEAR(linear.concurrency(44.59 * kGib, 262'144, 8192), 14.767, 0.001);
  // 1 GiB: 3.24 × 8,192 tokens with 512 tokens in an iteration.
  const KvLayout windowed = kv_layout(spec_of(known("gpt-oss-120b"), 1), 128);
  EXPECT_EQ(windowed.blocks(kGib), 227U);
  EXPECT_NEAR(windowed.concurrency(kGib, 8192, 512) * 8192, 26'565, 1);
  EXPECT_NEAR(kv_layout(spec_of(known("deepseek-v3"), 1), 16).concurrency(kGib, 8192, 512), 1.86, 0.005);
}

TEST(KvMemory, WeightsAndOverheadAreThoseOfTheLogs) {
  const struct {
    const char* engine;
    double utilization, weights_gib, kv_gib;
    double kv_tolerance;  // Share.
  } rows[] = {
      {"llama-3.3-70b,h200,tp=4,precision=fp8,kv_cache_dtype=bf16", 0.90, 16.96, 106.17, 0.02},
      {"deepseek-r1,h200,tp=8,precision=fp8,kv_cache_dtype=bf16", 0.90, 79.74, 41.60, 0.08},
      {"llama-3.1-70b,h100,tp=1,precision=fp8,kv_cache_dtype=bf16", 0.98, 67.72, 6.74, 0.20},
  };
  for (const auto& row : rows) {
    auto roofline =
        parse_roofline(std::string{row.engine} + ",gpu_memory_utilization=" + std::to_string(row.utilization));
    ASSERT_TRUE(roofline) << roofline.error().message();
    const KvMemory memory = kv_memory(roofline->spec(), {});
    EXPECT_NEAR(memory.weights_gib / row.weights_gib, 1.0, 0.05) << row.engine;
    EXPECT_NEAR(memory.kv_gib / row.kv_gib, 1.0, row.kv_tolerance) << row.engine;
  }
}

TEST(KvMemory, AReplicaHasTheTokensOfItsLeastStageAndOfAllRanks) {
  const auto tokens_of = [](std::string_view text) { return kv_memory(parse_roofline(text)->spec(), {}).tokens; };
  // A latent cannot be split: eight GPUs hold it eight times.
  EXPECT_GT(tokens_of("deepseek-v3,h200,tp=8,attention_ranks=8,precision=fp8"),
            4 * tokens_of("deepseek-v3,h200,tp=8,precision=fp8"));
  // Each of two stages has half of the layers, of weights and of the KV cache.
  EXPECT_GT(tokens_of("llama-3.1-70b,h100,tp=2,pp=2"), 0.9 * tokens_of("llama-3.1-70b,h100,tp=4"));
  EXPECT_LT(tokens_of("llama-3.1-8b,h100,kv_cache_dtype=bf16,gpu_memory_utilization=0.5"),
            0.6 * tokens_of("llama-3.1-8b,h100"));
  EXPECT_EQ(std::lround(tokens_of("llama-3.1-8b,h100,overhead_gib=3") - tokens_of("llama-3.1-8b,h100,overhead_gib=4")),
            std::lround(kGib / 131072));
}

TEST(KvMemory, SequencesOfHybridsReserveTheirStates) {
  const RooflineSpec spec = parse_roofline("qwen3.5-397b-a17b,h200,tp=8,precision=fp8")->spec();
  EXPECT_LT(kv_memory(spec, {.max_sequences = 256}).tokens, kv_memory(spec, {.max_sequences = 16}).tokens);
  // At most half of the memory is set aside.
  EXPECT_GT(kv_memory(spec, {.max_sequences = 60'000}).tokens, 0.45 * kv_memory(spec, {.max_sequences = 1}).tokens);
}

TEST(KvMemory, TheAssumptionsAreAsSentence) {
  const RooflineSpec spec = parse_roofline("llama-3.1-8b,h100")->spec();
  EXPECT_EQ(describe(kv_memory(spec, {}), spec),
            "0.92 of 79.19 GiB a GPU, less 15.0 GiB of weights (bf16) and 2.4 GiB of overhead, leaves 55.5 GiB at "
            "131072 bytes a token (KV cache in bf16)");
}

TEST(KvMemory, GpusThatLeaveNoKvCacheAreRefused) {
  const auto problem = [](std::string_view text) {
    const auto roofline = parse_roofline(text);
    return roofline ? "" : roofline.error().message();
  };
  EXPECT_EQ(problem("llama-3.1-70b,h100,tp=1"),
            "roofline: llama-3.1-70b in bf16 on 1 x h100_sxm: 131.4 GiB of weights a GPU do not fit 72.9 GiB (0.92 of "
            "79.19 GiB); raise tp or lower the precision");
  EXPECT_EQ(problem("llama-3.1-70b,h100,tp=4"), "");
  // vLLM refuses it as well, with -2.14 GiB left.
  EXPECT_TRUE(problem("gpt-oss-120b,h100,precision=fp4,gpu_memory_utilization=0.90,overhead_gib=9.4")
                  .find("GiB of overhead leave no KV cache") != std::string::npos);
}

}  // namespace
}  // namespace penstock::engine
