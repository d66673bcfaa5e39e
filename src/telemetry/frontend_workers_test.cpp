#include "telemetry/frontend_workers.h"

#include <gtest/gtest.h>

namespace penstock::telemetry {
namespace {

std::optional<FrontendWorkers> read(std::string_view text) {
  const auto parsed = parse_exposition(text, "frontend");
  EXPECT_TRUE(parsed);
  return parsed ? read_frontend_workers(*parsed) : std::nullopt;
}

constexpr std::string_view kModel =
    "dynamo_frontend_model_total_kv_blocks{model=\"m\"} 8192\n"
    "dynamo_frontend_model_kv_cache_block_size{model=\"m\"} 16\n"
    "dynamo_frontend_model_max_num_seqs{model=\"m\"} 256\n";

TEST(FrontendWorkers, CapacityIsThatOfAllWorkers) {
  const auto found = read(std::string{kModel} +
                          "dynamo_frontend_worker_active_decode_blocks{worker_id=\"71\",dp_rank=\"0\"} 4\n"
                          "dynamo_frontend_worker_active_decode_blocks{worker_id=\"72\",dp_rank=\"0\"} 0\n"
                          "dynamo_frontend_worker_active_prefill_tokens{worker_id=\"72\",dp_rank=\"0\"} 9\n");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->workers, 2U);
  EXPECT_EQ(found->kv_tokens, 2U * 8192 * 16);
  EXPECT_EQ(found->max_sequences, 512U);
}

TEST(FrontendWorkers, AWorkerThatIsNamedInDecimalAndInHexadecimalCountsOnce) {
  const auto found = read(
      "dynamo_component_ckf_mutation_total{worker_id=\"cc1bb6578bce6a5d\"} 0\n"
      "dynamo_component_ckf_mutation_total{worker_id=\"b7bbdb60df82d950\"} 0\n"
      "dynamo_frontend_worker_active_decode_blocks{worker_id=\"14707549495232457309\"} 0\n");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->workers, 2U);
}

TEST(FrontendWorkers, WithoutNamedWorkersNothingIsKnown) {
  EXPECT_FALSE(read(kModel));
  EXPECT_FALSE(read("vllm:num_requests_running{worker_id=\"1\"} 3\n"));
}

TEST(FrontendWorkers, MissingCapacityIsNotZero) {
  const auto found = read(
      "dynamo_frontend_model_total_kv_blocks{model=\"m\"} 0\n"
      "dynamo_frontend_worker_active_decode_blocks{worker_id=\"71\"} 4\n");
  ASSERT_TRUE(found);
  EXPECT_FALSE(found->kv_tokens);
  EXPECT_FALSE(found->max_sequences);
}

}  // namespace
}  // namespace penstock::telemetry
