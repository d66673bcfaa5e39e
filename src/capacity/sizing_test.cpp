#include "capacity/sizing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>

namespace penstock::capacity {
namespace {

SizingRequest request_for(std::string_view model, std::string_view gpu, engine::Precision precision,
                          double requests_per_s) {
  SizingRequest request;
  request.engine.model = engine::find_model(model);
  request.engine.gpu = engine::find_gpu(gpu);
  request.engine.precision = precision;
  request.engine.kv_cache = engine::Precision::kBf16;
  request.engine.overhead_gib = 1.3;
  request.requests_per_s = requests_per_s;
  request.traffic = {1500.0, 200.0, 0.0};
  request.longest_request = 1700;
  return request;
}

const SizingChoice& choice_named(const SizingAdvice& advice, std::string_view mig_profile) {
  return *std::find_if(advice.choices.begin(), advice.choices.end(),
                       [&](const SizingChoice& choice) { return choice.mig_profile == mig_profile; });
}

const SizingChoice& whole_gpus(const SizingAdvice& advice, std::uint32_t gpus) {
  return *std::find_if(advice.choices.begin(), advice.choices.end(), [&](const SizingChoice& choice) {
    return choice.placement == Placement::kWholeGpus && choice.tensor_parallel == gpus;
  });
}

// Llama-3.1-8B: 6.980e9 parameters in layers and twice 525.3e6 in embeddings, which stay in 16 bit, and 131,072 bytes
// of keys and values a token, thus 8,192 tokens a GiB.
//   bf16: (6.980e9 + 1.0507e9) · 2 B = 14.958 GiB    fp8: 8.458 GiB    int4, at 0.5625 B: 5.613 GiB
// An instance of an H100 has 79.19 GiB · slices / 8 − 0.4 GiB, of which 0.92 is used, less 1.3 GiB of overhead.
TEST(Sizing, KvCacheIsWhatWeightsLeaveOfAnInstance) {
  const struct {
    engine::Precision precision;
    std::string_view profile;
    double tokens;  // 0: the weights do not fit.
  } rows[] = {
      {engine::Precision::kInt4, "1g.10gb", (0.92 * 9.49875 - 5.613 - 1.3) * 8192},
      {engine::Precision::kFp8, "1g.10gb", 0.0},  // 8.458 + 1.3 of 8.739 GiB.
      {engine::Precision::kBf16, "2g.20gb", (0.92 * 19.3975 - 14.958 - 1.3) * 8192},
      {engine::Precision::kFp8, "2g.20gb", (0.92 * 19.3975 - 8.458 - 1.3) * 8192},
      {engine::Precision::kBf16, "3g.40gb", (0.92 * 39.195 - 14.958 - 1.3) * 8192},
  };
  for (const auto& row : rows) {
    const SizingAdvice advice = advise(request_for("llama-3.1-8b", "h100", row.precision, 1.0));
    const SizingChoice& choice = choice_named(advice, row.profile);
    if (row.tokens == 0.0)
      EXPECT_EQ(choice.verdict, Verdict::kWeightsDoNotFit);
    else
      EXPECT_NEAR(choice.memory.tokens, row.tokens, 20.0) << row.profile;
  }
}

TEST(Sizing, ASmallLoadGetsTheSmallestInstanceThatCarriesIt) {
  const SizingAdvice advice = advise(request_for("llama-3.1-8b", "h100", engine::Precision::kBf16, 1.0));
  ASSERT_TRUE(advice.best);
  const SizingChoice& best = advice.choices[*advice.best];
  EXPECT_EQ(advice.reason, SizingReason::kSliceSuffices);
  EXPECT_EQ(best.placement, Placement::kMig);
  EXPECT_EQ(best.mig_profile, "3g.40gb") << "the weights leave too little of a smaller one";
  EXPECT_EQ(best.replicas, 1U);
  EXPECT_DOUBLE_EQ(best.gpus_used, 0.5);
  EXPECT_EQ(best.gpus_occupied, 1U);
}

TEST(Sizing, ReplicasCarryTheLoadWithinTheUtilisation) {
  SizingRequest request = request_for("llama-3.1-8b", "h100", engine::Precision::kBf16, 30.0);
  request.utilisation = 0.5;
  const SizingAdvice advice = advise(request);
  for (const SizingChoice& choice : advice.choices) {
    if (!choice.serves()) continue;
    EXPECT_EQ(choice.replicas, std::ceil(30.0 / (0.5 * choice.requests_per_s)));
    EXPECT_NEAR(choice.utilisation, 30.0 / (choice.replicas * choice.requests_per_s), 1e-12);
    EXPECT_LE(choice.utilisation, 0.5);
    EXPECT_EQ(choice.gpus_occupied,
              std::ceil(choice.replicas * choice.tensor_parallel / static_cast<double>(choice.replicas_per_gpu)));
  }
  const SizingChoice& half = choice_named(advice, "3g.40gb");
  const SizingChoice& whole = whole_gpus(advice, 1);
  EXPECT_GT(half.requests_per_s, 0.3 * whole.requests_per_s);
  EXPECT_LT(half.requests_per_s, 0.5 * whole.requests_per_s) << "3/7 of the compute, half of the bandwidth";
}

TEST(Sizing, ALargeLoadGetsWholeGpus) {
  const SizingAdvice advice = advise(request_for("llama-3.1-8b", "h100", engine::Precision::kBf16, 100.0));
  ASSERT_TRUE(advice.best);
  EXPECT_EQ(advice.choices[*advice.best].placement, Placement::kWholeGpus);
  EXPECT_EQ(advice.choices[*advice.best].tensor_parallel, 1U);
  EXPECT_EQ(advice.reason, SizingReason::kFillsGpus);
}

TEST(Sizing, TwoReplicasForAvailabilityShareOneGpuAsInstances) {
  SizingRequest request = request_for("llama-3.1-8b", "h100", engine::Precision::kBf16, 2.0);
  request.min_replicas = 2;
  const SizingAdvice advice = advise(request);
  ASSERT_TRUE(advice.best);
  EXPECT_EQ(advice.choices[*advice.best].mig_profile, "3g.40gb");
  EXPECT_EQ(advice.choices[*advice.best].gpus_occupied, 1U);
  EXPECT_EQ(whole_gpus(advice, 1).gpus_occupied, 2U);
}

// 141 GB of weights in 16 bit: 131.4 GiB, 65.7 GiB on each of two GPUs, of which 72.9 GiB are used.
TEST(Sizing, AModelThatExceedsAGpuIsDividedAmongSeveral) {
  const SizingAdvice advice = advise(request_for("llama-3.1-70b", "h100", engine::Precision::kBf16, 1.0));
  ASSERT_TRUE(advice.best);
  EXPECT_EQ(advice.reason, SizingReason::kNeedsGpus);
  EXPECT_EQ(whole_gpus(advice, 1).verdict, Verdict::kWeightsDoNotFit);
  EXPECT_TRUE(whole_gpus(advice, 2).serves());
  EXPECT_GT(advice.choices[*advice.best].tensor_parallel, 1U);
}

// 810 GB of weights in 16 bit are 94 GiB on each of eight GPUs.
TEST(Sizing, NothingServesAModelThatExceedsANode) {
  const SizingAdvice advice = advise(request_for("llama-3.1-405b", "h100", engine::Precision::kBf16, 1.0));
  EXPECT_FALSE(advice.best);
  EXPECT_EQ(advice.reason, SizingReason::kNothingServes);
  EXPECT_EQ(whole_gpus(advice, 8).verdict, Verdict::kWeightsDoNotFit);
}

TEST(Sizing, MpsIsAdvisedWhereThereIsNoMigUnlessEnginesMustBeIsolated) {
  SizingRequest request = request_for("llama-3.1-8b", "l40s", engine::Precision::kFp8, 0.2);
  const SizingAdvice shared = advise(request);
  ASSERT_TRUE(shared.best);
  EXPECT_EQ(shared.reason, SizingReason::kNoMig);
  EXPECT_EQ(shared.choices[*shared.best].placement, Placement::kMps);
  EXPECT_DOUBLE_EQ(shared.choices[*shared.best].memory_utilization,
                   0.92 / shared.choices[*shared.best].replicas_per_gpu);
  request.isolated = true;
  const SizingAdvice isolated = advise(request);
  ASSERT_TRUE(isolated.best);
  EXPECT_EQ(isolated.reason, SizingReason::kIsolation);
  EXPECT_EQ(isolated.choices[*isolated.best].placement, Placement::kWholeGpus);
  EXPECT_EQ(isolated.choices[*shared.best].verdict, Verdict::kNotIsolated);
}

// 3 engines by MPS on an H100 have 57,060 KV tokens each and need a third of it, less than an instance of half a GPU.
TEST(Sizing, MpsThatNeedsLessThanTheAdvisedInstanceIsNamed) {
  SizingRequest request = request_for("llama-3.1-8b", "h100", engine::Precision::kBf16, 1.0);
  const SizingAdvice advice = advise(request);
  ASSERT_TRUE(advice.cheaper_mps);
  EXPECT_EQ(advice.choices[*advice.cheaper_mps].placement, Placement::kMps);
  EXPECT_LT(advice.choices[*advice.cheaper_mps].gpus_used, advice.choices[*advice.best].gpus_used);
  request.isolated = true;
  EXPECT_FALSE(advise(request).cheaper_mps);
  request = request_for("llama-3.1-8b", "l40s", engine::Precision::kFp8, 0.2);
  EXPECT_FALSE(advise(request).cheaper_mps) << "MPS is the best one";
}

// A 1g.20gb instance has 13,010 KV tokens beside the weights.
TEST(Sizing, AChoiceWithoutRoomForABatchIsTheLastResort) {
  SizingRequest request = request_for("llama-3.1-8b", "h100", engine::Precision::kBf16, 0.01);
  const SizingAdvice small = advise(request);
  EXPECT_EQ(small.choices[*small.best].mig_profile, "1g.20gb") << "it holds 7 requests of 1,700 tokens";
  request.traffic.input_tokens = 4000.0;
  request.longest_request = 4200;
  const SizingAdvice large = advise(request);
  const SizingChoice& instance = choice_named(large, "1g.20gb");
  EXPECT_TRUE(instance.serves());
  EXPECT_FALSE(instance.holds_batch());
  EXPECT_NEAR(instance.requests_at_once, instance.memory.tokens / 4200.0, 0.05);
  EXPECT_NE(large.choices[*large.best].mig_profile, "1g.20gb");
  request.traffic.input_tokens = 2'000'000.0;
  request.longest_request = 2'000'200;
  request.slo.ttft = request.slo.itl = std::chrono::hours{1};
  const SizingAdvice resort = advise(request);
  ASSERT_TRUE(resort.best) << "eight GPUs hold 4.5 million tokens";
  EXPECT_FALSE(resort.choices[*resort.best].holds_batch());
}

TEST(Sizing, AChoiceMustHoldTheLongestRequestAndKeepTheSlo) {
  SizingRequest request = request_for("llama-3.1-8b", "h100", engine::Precision::kBf16, 1.0);
  request.longest_request = 200'000;
  const SizingAdvice longest = advise(request);
  EXPECT_EQ(choice_named(longest, "3g.40gb").verdict, Verdict::kKvCacheTooSmall) << "it holds 162,000 tokens";
  EXPECT_TRUE(whole_gpus(longest, 1).serves());
  request.longest_request = 1700;
  request.slo.itl = std::chrono::milliseconds{1};
  const SizingAdvice fast = advise(request);
  EXPECT_EQ(whole_gpus(fast, 1).verdict, Verdict::kMissesSlo) << "15 GiB take 5 ms to read";
  EXPECT_FALSE(fast.best);
}

TEST(Sizing, ClassesOfModelsFollowTheirParameters) {
  for (const auto& [model, expected] :
       {std::pair{"llama-3.1-8b", ModelClass::kSmall}, std::pair{"qwen3-32b", ModelClass::kMedium},
        std::pair{"llama-3.1-70b", ModelClass::kLarge}, std::pair{"mixtral-8x7b", ModelClass::kMixture}})
    EXPECT_EQ(class_of(*engine::find_model(model)), expected) << model;
}

}  // namespace
}  // namespace penstock::capacity
