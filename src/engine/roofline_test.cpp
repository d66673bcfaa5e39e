#include "engine/roofline.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

namespace penstock::engine {
namespace {

Roofline parsed(std::string_view text) {
  auto roofline = parse_roofline(text);
  EXPECT_TRUE(roofline) << text << ": " << (roofline ? "" : roofline.error().message());
  return *roofline;
}

std::string problem(std::string_view text) {
  const auto roofline = parse_roofline(text);
  return roofline ? "" : roofline.error().message();
}

double decode_ms(const Roofline& roofline, std::uint32_t sequences, std::uint64_t context_each) {
  StepShape shape;
  shape.decode_sequences = sequences;
  shape.decode_context_tokens = sequences * context_each;
  return roofline.step_ms(shape);
}

double prefill_ms(const Roofline& roofline, std::uint64_t tokens) {
  StepShape shape;
  shape.prefill_requests = 1;
  shape.prefill_new_tokens = tokens;
  shape.prefill_attention_pairs = 0.5 * static_cast<double>(tokens) * static_cast<double>(tokens + 1);
  return roofline.step_ms(shape);
}

constexpr const char* kIdeal = ",bandwidth=1,compute=1,layer_us=0,sequence_us=0,interconnect=1";

TEST(Roofline, OneSequenceReadsTheWeightsAndItsKeysAndValues) {
  // Weights of 7.504e9 parameters, 32 layers of 4096·(32+16)·128 + 4096² + 3·4096·14336 and 128256·4096, in 2 bytes
  // over 3350 GB/s; 131072 bytes of keys and values a token.
  const Roofline roofline = parsed(std::string{"llama-3.1-8b,h100"} + kIdeal);
  const double weights = (32.0 * (4096.0 * 48 * 128 + 4096.0 * 4096 + 3.0 * 4096 * 14336) + 128256.0 * 4096) * 2;
  EXPECT_NEAR(decode_ms(roofline, 1, 1000), (weights + 131072.0 * 1000) / 3350e6, 1e-3);
}

TEST(Roofline, PromptsAreLimitedByCompute) {
  const Roofline roofline = parsed(std::string{"llama-3.1-8b,h100"} + kIdeal);
  const double parameters = 32.0 * (4096.0 * 48 * 128 + 4096.0 * 4096 + 3.0 * 4096 * 14336);
  const double flops = 2.0 * parameters * 4096 + 32.0 * 4 * 32 * 128 * (4096.0 * 4097 / 2);
  const double weights_ms = (parameters + 128256.0 * 4096) * 2 / 3350e6;
  EXPECT_NEAR(prefill_ms(roofline, 4096), flops / 989e9 + weights_ms, 1e-3);
}

TEST(Roofline, EveryStepGrowsWithBatchContextAndTokens) {
  for (const ModelCard& model : model_catalogue()) {
    for (const char* precision : {"bf16", "fp8", "fp4"}) {
      const int gpus = std::gcd(16, static_cast<int>(model.heads));
      const Roofline roofline = parsed(fmt::format("{},b300,tp={},precision={}", model.name, gpus, precision));
      for (std::uint32_t batch = 1; batch <= 256; batch *= 2) {
        EXPECT_LT(decode_ms(roofline, batch, 1000), decode_ms(roofline, batch * 2, 1000)) << model.name;
        EXPECT_LE(decode_ms(roofline, batch, 1000), decode_ms(roofline, batch, 2000)) << model.name;
      }
      for (std::uint64_t tokens = 1; tokens <= 32768; tokens *= 2)
        EXPECT_LT(prefill_ms(roofline, tokens), prefill_ms(roofline, tokens * 2)) << model.name;
    }
  }
}

TEST(Roofline, SparseAttentionReadsNoMoreThanItsTokens) {
  const Roofline roofline = parsed("glm-5,b200,tp=8,precision=fp8");
  EXPECT_LT(decode_ms(roofline, 8, 1000), decode_ms(roofline, 8, 2048));
  EXPECT_DOUBLE_EQ(decode_ms(roofline, 8, 2048), decode_ms(roofline, 8, 100000));
}

TEST(Roofline, MoreGpusShortenAStepLessThanProportionally) {
  const double one = decode_ms(parsed("llama-3.1-70b,h200,tp=2,precision=fp8"), 16, 1000);
  const double two = decode_ms(parsed("llama-3.1-70b,h200,tp=4,precision=fp8"), 16, 1000);
  EXPECT_LT(two, one);
  EXPECT_GT(two, one / 2);
}

TEST(Roofline, APipelineCarriesMoreAndIsNoFaster) {
  const Roofline one = parsed("llama-3.1-70b,h200,tp=2,precision=fp8");
  const Roofline two = parsed("llama-3.1-70b,h200,tp=2,pp=2,precision=fp8");
  EXPECT_EQ(one.spec().gpus(), 2U);
  EXPECT_EQ(two.spec().gpus(), 4U);
  // A lone sequence passes all layers one after the other, and one transfer more.
  EXPECT_GT(decode_ms(two, 1, 1000), decode_ms(one, 1, 1000));
  EXPECT_NEAR(decode_ms(two, 1, 1000), decode_ms(one, 1, 1000), 0.01);
  // Two batches of 32 are in flight: a step takes as long as one of 32 on one stage's GPUs, not as long as one of 64.
  EXPECT_NEAR(decode_ms(two, 64, 1000), decode_ms(one, 32, 1000), 0.05);
  EXPECT_LT(decode_ms(two, 64, 1000), decode_ms(one, 64, 1000));
}

TEST(Roofline, AMixtureReadsMoreExpertsAsItsBatchGrows) {
  // A batch of 64 reads all experts of the mixture, and no more weights of the dense model.
  const Roofline mixture = parsed("qwen3-30b-a3b,h100"), dense = parsed("llama-3.1-8b,h100");
  EXPECT_GT(decode_ms(mixture, 64, 100) / decode_ms(mixture, 1, 100), 2.5);
  EXPECT_LT(decode_ms(dense, 64, 100) / decode_ms(dense, 1, 100), 1.5);
}

TEST(Roofline, AttentionRanksDivideSequencesAndExchangeTokensWithExperts) {
  // 16 GPUs of two nodes, 16 ranks, 32 sequences: two a rank.
  const Roofline roofline = parsed(std::string{"deepseek-v3,b200,tp=16,attention_ranks=16,precision=fp8"} + kIdeal);
  const ModelCard& model = *find_model("deepseek-v3");
  const double own = model.attention_parameters() + model.dense_parameters();
  // Every GPU has all of the attention, a sixteenth of the rest, and reads the experts that 32 tokens choose.
  const double touched = 1.0 - std::pow(1.0 - 8.0 / 256, 32);
  const double weights =
      model.attention_parameters() +
      (model.dense_parameters() + 2.0 * model.embedding_parameters() + touched * model.expert_parameters()) / 16;
  const double flops = 2.0 * (own * 2 + model.expert_parameters() * 8 / 256 * 32 / 16);
  const double limits = std::pow(std::pow(weights / 8e9, 4) + std::pow(flops / 4500e9, 4), 0.25);
  const double keys_and_values = 61.0 * 576 * 2 * 1000 / 8e9;
  // A token goes to 15·(1 − (15/16)⁸) other GPUs in one byte a value and returns in two, and to 1 − (1/2)⁸ other nodes
  // by a network of 50 GB/s, at 85 % of both rates; two transfers of 61 layers begin with 20 µs.
  const double others = 15.0 * (1.0 - std::pow(15.0 / 16, 8)) / 900e6 + (1.0 - std::pow(0.5, 8)) / 50e6;
  const double exchange = 32.0 / 16 * others * 61 * 7168 * 3 / 0.85 + 2 * 61 * 0.02;
  EXPECT_NEAR(decode_ms(roofline, 32, 1000), limits + keys_and_values + exchange, 1e-3);
}

TEST(Roofline, RanksComputePromptsTogetherOnceAllHaveSequences) {
  const Roofline roofline = parsed(std::string{"llama-3.1-70b,b200,tp=8,attention_ranks=8,precision=fp8"} + kIdeal);
  const auto added_ms = [&](std::uint32_t decoding) {
    StepShape shape;
    shape.decode_sequences = decoding;
    shape.decode_context_tokens = decoding * 4000ULL;
    const double before = roofline.step_ms(shape);
    shape.prefill_requests = 1;
    shape.prefill_new_tokens = 4000;
    shape.prefill_attention_pairs = 4000.0 * 4001 / 2;
    return roofline.step_ms(shape) - before;
  };
  const ModelCard& model = *find_model("llama-3.1-70b");
  const double own = 2.0 * (model.attention_parameters() + model.dense_parameters()) * 4000 / 4500e9 +
                     80.0 * model.attention_flops_per_pair() * 4000 * 4001 / 2 / 2250e9;
  // A lone prompt is computed by one rank, beside 3 sequences it is a fourth of the work of the prompts of 4 ranks.
  EXPECT_NEAR(added_ms(0) - added_ms(256), own * (1.0 - 1.0 / 8), 1e-6);
  EXPECT_NEAR(added_ms(3) - added_ms(256), own * (1.0 / 4 - 1.0 / 8), 1e-6);
  EXPECT_NEAR(added_ms(512), added_ms(256), 1e-6);
}

TEST(Roofline, RanksOfSeveralGpusReduceAmongThemselves) {
  // Without experts nothing is exchanged: 8 GPUs reduce after the feed-forward layers, 2 of a rank after attention.
  const auto reduce_ms = [](const char* link) {
    return decode_ms(parsed(std::string{"llama-3.1-70b,h100,tp=8,attention_ranks=4,precision=fp8,bandwidth=1,compute=1,"
                                        "layer_us=0,sequence_us=0,interconnect="} +
                            link),
                     64, 1000);
  };
  const double ring_bytes = 2.0 * 2 * 80 * 8192;
  EXPECT_NEAR(reduce_ms("0.5") - reduce_ms("1"), (64.0 * 7 / 8 + 16.0 * 1 / 2) * ring_bytes / 450e6, 1e-6);
}

TEST(Roofline, ARankWithinANodeReducesThere) {
  // Two ranks of 8 GPUs on two nodes: only the ring of all 16 after the feed-forward layers passes the network.
  const std::string settings = ",precision=fp8,layer_us=0,sequence_us=0,bandwidth=1,compute=1,interconnect=1";
  const double two_nodes = decode_ms(parsed("llama-3.1-70b,b200,tp=16,attention_ranks=2" + settings), 64, 1000);
  const double rack =
      decode_ms(parsed("llama-3.1-70b,b200,tp=16,attention_ranks=2,gpu_interconnect_gb_s=42.5" + settings), 64, 1000);
  EXPECT_NEAR(rack - two_nodes, 32.0 * 4 * 80 * 8192 * 7 / 8 * (1 / 42.5e6 - 1 / 900e6), 1e-6);
}

TEST(Roofline, GpusOfSeveralNodesCommunicateByTheNetwork) {
  const std::string settings = ",precision=fp8,layer_us=0,sequence_us=0,bandwidth=1,compute=1,interconnect=1";
  const double one_node = prefill_ms(parsed("llama-3.1-70b,gb200,tp=16" + settings), 4000);
  const double two_nodes = prefill_ms(parsed("llama-3.1-70b,b200,tp=16" + settings), 4000);
  EXPECT_GT(two_nodes, one_node + 4000.0 * 8 * 80 * 8192 * 15 / 16 * (1 / 42.5e6 - 1 / 900e6) - 1.0);
}

TEST(RooflineSpec, ARanksNumberDividesTheGpus) {
  EXPECT_EQ(problem("deepseek-v3,b200,tp=16,attention_ranks=3"),
            "roofline: attention_ranks: must divide tp (16), is 3");
  EXPECT_TRUE(
      problem("deepseek-v3,b200,tp=8,attention_ranks=16").starts_with("roofline: attention_ranks: must divide"));
}

TEST(RooflineSpec, TheGpusOfARankDivideTheAttentionHeads) {
  EXPECT_EQ(
      problem("llama-3.1-8b,h100,tp=3"),
      "roofline: tp: must divide the 32 attention heads of llama-3.1-8b, is 3; engines refuse to start otherwise");
  EXPECT_EQ(problem("qwen2.5-7b,h100,tp=8"),
            "roofline: tp: must divide the 28 attention heads of qwen2.5-7b, is 8; engines refuse to start otherwise");
  EXPECT_EQ(
      problem("llama-3.1-8b,h100,tp=6,attention_ranks=2"),
      "roofline: tp: divided by attention_ranks, must divide the 32 attention heads of llama-3.1-8b, is 3; engines "
      "refuse to start otherwise");
  EXPECT_EQ(problem("llama-3.1-8b,h100,tp=6,attention_ranks=3"), "");
  EXPECT_EQ(problem("llama-3.1-8b,h100,tp=2,pp=3"), "");
  EXPECT_TRUE(parse_roofline_of_any_memory("llama-3.1-8b,h100,tp=3"));
}

TEST(RooflineSpec, AReleaseThatWasNotMeasuredIsAnError) {
  const std::string_view text = "minimax-m2.5,b200_sxm,tp=4,precision=fp8,backend=vllm,release=0.19.0";
  EXPECT_EQ(parsed(text).description(), "roofline:" + std::string{text});
  EXPECT_NE(decode_ms(parsed(text), 8, 1000), decode_ms(parsed(text.substr(0, text.rfind(','))), 8, 1000));
  EXPECT_TRUE(problem("minimax-m2.5,b200,tp=4,release=9.9")
                  .starts_with("roofline: release: '9.9' of vllm was not measured with mixtures of experts; leave it "
                               "out, or use one of: "));
}

TEST(RooflineSpec, TakesDefaultsAndOverrides) {
  EXPECT_EQ(parsed("llama-3.1-8b,h100").description(),
            "roofline:llama-3.1-8b,h100_sxm,tp=1,precision=bf16,backend=vllm");
  EXPECT_EQ(parsed("meta-llama/Llama-3.1-70B-Instruct,H200,tp=4,precision=fp8,backend=trtllm").description(),
            "roofline:llama-3.1-70b,h200_sxm,tp=4,precision=fp8,backend=trtllm");
  EXPECT_DOUBLE_EQ(parsed("llama-3.1-8b,h100,bandwidth=0.5").efficiency().bandwidth, 0.5);
  EXPECT_DOUBLE_EQ(parsed("llama-3.1-8b,h100,bandwidth=0.5").efficiency().compute,
                   parsed("llama-3.1-8b,h100").efficiency().compute);
}

TEST(RooflineSpec, ItsDescriptionReadsBackAsTheSame) {
  const Roofline once = parsed("qwen3-32b,h100,tp=4,pp=2,precision=fp8,backend=sglang");
  const Roofline again = parsed(std::string_view{once.description()}.substr(9));
  EXPECT_EQ(once.description(), again.description());
  EXPECT_EQ(decode_ms(once, 7, 1234), decode_ms(again, 7, 1234));
}

TEST(RooflineSpec, ItsDescriptionHasTheMemory) {
  const std::string_view text =
      "deepseek-v3,h200_sxm,tp=8,attention_ranks=8,precision=fp8,backend=sglang,gpu_memory_utilization=0.85,"
      "overhead_gib=3.5,kv_cache_dtype=bf16";
  EXPECT_EQ(parsed(text).description(), "roofline:" + std::string{text});
}

TEST(RooflineSpec, ErrorsListTheKnownNames) {
  EXPECT_TRUE(
      problem("llama-9,h100").starts_with("roofline: model 'llama-9' is not in the catalogue; nearest: llama-2-7b, "));
  EXPECT_TRUE(problem("llama-3.1-8b,h900").starts_with("roofline: GPU 'h900' is not in the catalogue; nearest: "));
  EXPECT_NE(problem("Qwen/Qwen3-33B,h100").find("nearest: qwen3-32b, "), std::string::npos);
  for (const char* wrong : {"llama-9,h100", "llama-3.1-8b,h900"}) {
    EXPECT_NE(problem(wrong).find("; known: "), std::string::npos);
    EXPECT_NE(problem(wrong).find("; for others give "), std::string::npos);
  }
  EXPECT_EQ(problem("llama-3.1-8b"),
            "roofline: needs a model and a GPU; write roofline:MODEL,GPU,tp=N,precision=P,backend=B");
  EXPECT_EQ(problem("llama-3.1-8b,h100,tp=0"), "roofline: tp: must be from 1 to 256, is '0'");
  EXPECT_EQ(problem("llama-3.1-8b,h100,tp=two"), "roofline: tp: must be from 1 to 256, is 'two'");
  EXPECT_EQ(problem("llama-3.1-8b,h100,precision=fp7"),
            "roofline: precision: 'fp7' is unknown; use bf16, fp8, fp4 or int4");
  EXPECT_EQ(problem("llama-3.1-8b,h100,backend=tgi"),
            "roofline: backend: 'tgi' is unknown; use vllm, sglang or trtllm");
  EXPECT_EQ(problem("llama-3.1-8b,h100,bandwidth=1.5"), "roofline: bandwidth: must be from 0.01 to 1, is '1.5'");
  EXPECT_EQ(problem("llama-3.1-8b,h100,compute=nan"), "roofline: compute: must be from 0.01 to 1, is 'nan'");
  EXPECT_TRUE(problem("llama-3.1-8b,h100,dp=2").starts_with("roofline: dp: unknown setting; use tp, "));
  EXPECT_EQ(problem("llama-3.1-8b,h100,fast"),
            "roofline: unknown setting 'fast'; write roofline:MODEL,GPU,tp=N,precision=P,backend=B");
  EXPECT_EQ(problem("llama-3.1-8b,h100,tp=2,tp=4"), "roofline: tp: must not be repeated");
}

TEST(RooflineCalibration, IsSortedSoThatALookUpFinds) {
  const auto rows = roofline_calibration();
  for (std::size_t i = 1; i < rows.size(); ++i) EXPECT_LT(rows[i - 1].effect, rows[i].effect);
}

TEST(RooflineCalibration, FiguresStayWithinTheirRanges) {
  for (const ModelCard& model : model_catalogue()) {
    for (const GpuCard& gpu : gpu_catalogue()) {
      const RooflineEfficiency figures = calibrated_efficiency(Backend::kVllm, gpu.name, Precision::kFp8, model);
      const FigureShift values = {figures.bandwidth, figures.compute, figures.layer_overhead_us,
                                  figures.sequence_overhead_us, figures.interconnect};
      for (std::size_t i = 0; i < kFigures; ++i) {
        EXPECT_GT(values[i], kFigureRanges[i].low);
        EXPECT_LT(values[i], kFigureRanges[i].high);
      }
    }
  }
}

TEST(RooflineCalibration, GpusOfARackHaveTheEffectsOfTheirDie) {
  const ModelCard& model = *find_model("deepseek-v3");
  EXPECT_EQ(calibrated_efficiency(Backend::kTrtllm, "gb200", Precision::kFp4, model).bandwidth,
            calibrated_efficiency(Backend::kTrtllm, "b200_sxm", Precision::kFp4, model).bandwidth);
}

TEST(RooflineCalibration, WithoutShiftsAFigureStaysAtItsStart) {
  const RooflineEfficiency figures = efficiency_of(start_shift());
  EXPECT_NEAR(figures.bandwidth, 0.80, 1e-12);
  EXPECT_NEAR(figures.layer_overhead_us, 45.0, 1e-9);
}

TEST(RooflineCalibration, TheUnseenInheritsWhatIsKnown) {
  // No row of an A100 is measured: its figures are those of the family, the backend, the precision and the model.
  FigureShift sum = start_shift();
  for (const CalibrationRow& row : roofline_calibration())
    for (const char* effect : {"dense", "dense/vllm", "dense/bf16", "dense/llama-3.1-8b"})
      if (row.effect == effect)
        for (std::size_t i = 0; i < kFigures; ++i) sum[i] += row.shift[i];
  const auto figures = calibrated_efficiency(Backend::kVllm, "a100_sxm", Precision::kBf16, *find_model("llama-3.1-8b"));
  EXPECT_NEAR(figures.bandwidth, efficiency_of(sum).bandwidth, 1e-12);
  EXPECT_NEAR(figures.interconnect, efficiency_of(sum).interconnect, 1e-12);
}

}  // namespace
}  // namespace penstock::engine
