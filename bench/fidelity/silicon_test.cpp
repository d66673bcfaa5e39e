#include "fidelity/silicon.h"

#include <gtest/gtest.h>

#include "fidelity/silicon_testing.h"
#include "fidelity/step_time_errors.h"

namespace penstock::fidelity {
namespace {

using testing::kHeader;

core::Result<std::vector<SiliconRow>> read(std::string_view rows) {
  return read_silicon(std::string{kHeader} + std::string{rows}, "m.csv");
}

std::string problem(std::string_view rows) {
  const auto read_rows = read(rows);
  return read_rows ? "" : read_rows.error().message();
}

TEST(Silicon, ReadsAnAggregatedRow) {
  const auto rows =
      read("trtllm,1.0,meta-llama/Llama-3.1-70B,h200_sxm,fp8,agg,1024,512,32,4,1,1,4,1,,,,,,,210.5,12.25\r\n");
  ASSERT_TRUE(rows) << rows.error().message();
  const SiliconRow& row = rows->front();
  EXPECT_TRUE(row.is_aggregated());
  EXPECT_EQ(row.key(), "trtllm|h200_sxm|fp8|llama-3.1-70b|4|1|1024|512|32");
  EXPECT_EQ(row.line, 2U);
  EXPECT_EQ(row.spec.release, "1.0");
  EXPECT_DOUBLE_EQ(row.ttft_ms, 210.5);
  EXPECT_DOUBLE_EQ(row.tpot_ms, 12.25);
}

TEST(Silicon, EmptySettingsMeanOneAndNoPrecisionMeansBf16) {
  const auto rows = read("vllm,,Qwen/Qwen3-32B,h100_sxm,,agg,1024,128,8,4,1,,1,0,,,,,,,126,11.7\n");
  ASSERT_TRUE(rows) << rows.error().message();
  EXPECT_EQ(rows->front().key(), "vllm|h100_sxm|bf16|qwen3-32b|4|1|1024|128|8");
}

TEST(Silicon, TheReleaseTellsTheLoadTest) {
  const auto rows = read(
      "vllm,0.12.0,Qwen/Qwen3-32B,h100_sxm,,agg,1024,128,8,4,1,,1,0,,,,,,,126,11.7\n"
      "vllm,0.19.0,Qwen/Qwen3-32B,h100_sxm,,agg,1024,128,8,4,1,,1,0,,,,,,,126,11.7\n");
  ASSERT_TRUE(rows) << rows.error().message();
  EXPECT_EQ((*rows)[0].load_test, LoadTest::kEqualLengths);
  EXPECT_EQ((*rows)[1].load_test, LoadTest::kMixedLengths);
  EXPECT_EQ((*rows)[0].key(), (*rows)[1].key());
}

TEST(Silicon, BatchIsOfOneAttentionRank) {
  const auto rows = read("trtllm,,deepseek-ai/DeepSeek-R1,b200_sxm,fp8,agg,1024,1024,32,1,1,8,1,8,,,,,,,1403,21\n");
  ASSERT_TRUE(rows) << rows.error().message();
  EXPECT_EQ(rows->front().key(), "trtllm|b200_sxm|fp8|deepseek-v3|8|8|1024|1024|256");
}

TEST(Silicon, GpusThatTheFileNamesTwiceCountOnce) {
  const auto rows = read(
      "trtllm,,deepseek-ai/DeepSeek-R1,b200_sxm,fp8,agg,1024,1024,4,1,1,64,8,8,,,,,,,1403,21\n"
      "vllm,,MiniMaxAI/MiniMax-M2.5,b200_sxm,fp8,agg,1024,1024,2,2,1,2,1,4,,,,,,,74,9.58\n"
      "trtllm,,deepseek-ai/DeepSeek-R1,b200_sxm,fp8,agg,1024,1024,8,64,1,1,8,8,,,,,,,308,9.6\n");
  ASSERT_TRUE(rows) << rows.error().message();
  EXPECT_EQ((*rows)[0].key(), "trtllm|b200_sxm|fp8|deepseek-v3|8|8|1024|1024|256");
  EXPECT_EQ((*rows)[1].key(), "vllm|b200_sxm|fp8|minimax-m2.5|2|2|1024|1024|4");
  EXPECT_EQ((*rows)[2].key(), "trtllm|b200_sxm|fp8|deepseek-v3|8|1|1024|1024|8");
}

TEST(Silicon, ReadsDisaggregatedRowsAsFarAsTheyAreStated) {
  const auto rows = read(
      "sglang,,Qwen/Qwen3-32B,h100_sxm,fp8,disagg,4000,500,,,,,,,1,2,1,16,3,4,300,9\n"
      "sglang,,Qwen/Qwen3-32B,h100_sxm,fp8,disagg,4000,500,,,,,,,,,1,,,4,300,9\n");
  ASSERT_TRUE(rows) << rows.error().message();
  EXPECT_EQ((*rows)[0].prefill.workers, 2U);
  EXPECT_EQ((*rows)[0].concurrency, 16U);
  EXPECT_EQ((*rows)[0].spec.tensor_parallel, 4U);
  EXPECT_EQ((*rows)[1].concurrency, 0U);
}

TEST(Silicon, AModelThatTheCatalogueLacksIsNoError) {
  const auto rows = read("vllm,,acme/Novel-9B,h100_sxm,fp8,agg,10,10,1,1,1,1,1,1,,,,,,,1,1\n");
  ASSERT_TRUE(rows);
  EXPECT_EQ(rows->front().spec.model, nullptr);
  EXPECT_FALSE(is_covered(rows->front()));
}

TEST(Silicon, ErrorsNameFileLineAndColumn) {
  EXPECT_EQ(problem("vllm,,q,h100_sxm,,agg,1,1,1,1,1,1,1,1,,,,,,,1\n"),
            "m.csv:2: has 21 cells where the header has 22");
  EXPECT_EQ(problem("\nvllm,,q,h100_sxm,,agg,0,1,1,1,1,1,1,1,,,,,,,1,1\n"),
            "m.csv:3: isl: must be a whole number from 1 to 10000000, is '0'");
  EXPECT_EQ(problem("vllm,,q,h100_sxm,,agg,1,1,1,1,1,1,1,1,,,,,,,1,nan\n"),
            "m.csv:2: silicon_tpot_ms: must be above 0 and at most 100000000 ms, is 'nan'");
  EXPECT_EQ(problem("vllm,,q,tpu,,agg,1,1,1,1,1,1,1,1,,,,,,,1,1\n"),
            "m.csv:2: system: GPU 'tpu' is not in the catalogue");
  EXPECT_EQ(problem("tgi,,q,h100_sxm,,agg,1,1,1,1,1,1,1,1,,,,,,,1,1\n"),
            "m.csv:2: backend: 'tgi' is unknown; use vllm, sglang or trtllm");
  EXPECT_EQ(problem("vllm,,q,h100_sxm,fp7,agg,1,1,1,1,1,1,1,1,,,,,,,1,1\n"),
            "m.csv:2: precision: 'fp7' is unknown; use bf16, fp8, fp4 or int4");
  EXPECT_EQ(problem("vllm,,q,h100_sxm,,solo,1,1,1,1,1,1,1,1,,,,,,,1,1\n"),
            "m.csv:2: mode: 'solo' is unknown; use agg or disagg");
  EXPECT_EQ(read_silicon("a,b\n1,2\n", "m.csv").error().message(), "m.csv:1: has no column backend");
  EXPECT_EQ(read_silicon("", "m.csv").error().message(), "m.csv:1: has no column backend");
}

TEST(Silicon, ReadsEveryPublishedRow) {
  const auto path = testing::silicon_csv();
  if (!path) return;
  const auto rows = load_silicon(*path);
  ASSERT_TRUE(rows) << rows.error().message();
  EXPECT_EQ(rows->size(), 4282U);
  for (const SiliconRow& row : *rows) EXPECT_NE(row.spec.model, nullptr) << row.line << " " << row.model;
}

}  // namespace
}  // namespace penstock::fidelity
