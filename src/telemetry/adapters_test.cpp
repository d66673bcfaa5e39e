#include "telemetry/adapters.h"

#include <gtest/gtest.h>

#include <string>

namespace penstock::telemetry {
namespace {

core::Instant at_s(double seconds) { return core::kStart + core::from_seconds(seconds); }

EngineScrape scrape_of(const std::string& text) {
  const auto exposition = parse_exposition(text, "test");
  EXPECT_TRUE(exposition) << exposition.error().message();
  return read_scrape(*exposition);
}

// As vLLM 0.29 shows it, of two data-parallel engines.
constexpr std::string_view kVllm = R"(# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="meta/l\"3"} 3.0
vllm:num_requests_running{engine="1",model_name="meta/l\"3"} 4.0
vllm:num_requests_waiting{engine="0",model_name="meta/l\"3"} 2.0
vllm:num_requests_waiting{engine="1",model_name="meta/l\"3"} 0.0
vllm:num_requests_waiting_by_reason{engine="0",model_name="meta/l\"3",reason="capacity"} 1.0
vllm:num_requests_waiting_by_reason{engine="0",model_name="meta/l\"3",reason="deferred"} 1.0
vllm:num_requests_waiting_by_reason{engine="1",model_name="meta/l\"3",reason="deferred"} 0.0
vllm:kv_cache_usage_perc{engine="0",model_name="meta/l\"3"} 0.5
vllm:kv_cache_usage_perc{engine="1",model_name="meta/l\"3"} 0.25
vllm:cache_config_info{block_size="16",engine="0",num_gpu_blocks="1000",cache_dtype="auto"} 1.0
vllm:cache_config_info{block_size="16",engine="1",num_gpu_blocks="1000",cache_dtype="auto"} 1.0
vllm:prompt_tokens_total{engine="0",model_name="meta/l\"3"} 1.25e+06
vllm:generation_tokens_total{engine="0",model_name="meta/l\"3"} 5000.0
vllm:prefix_cache_queries_total{engine="0",model_name="meta/l\"3"} 1000.0
vllm:prefix_cache_hits_total{engine="0",model_name="meta/l\"3"} 400.0
vllm:num_preemptions_total{engine="0",model_name="meta/l\"3"} 1.0
vllm:request_success_total{engine="0",finished_reason="stop",model_name="meta/l\"3"} 7.0
vllm:request_success_total{engine="0",finished_reason="length",model_name="meta/l\"3"} 2.0
vllm:request_success_total{engine="0",finished_reason="abort",model_name="meta/l\"3"} 1.0
vllm:iteration_tokens_total_bucket{engine="0",le="8.0"} 90.0
vllm:iteration_tokens_total_bucket{engine="0",le="+Inf"} 100.0
vllm:iteration_tokens_total_sum{engine="0"} 7000.0
vllm:iteration_tokens_total_count{engine="0"} 100.0
vllm:time_to_first_token_seconds_bucket{engine="0",le="0.5"} 4.0
vllm:time_to_first_token_seconds_bucket{engine="0",le="1.0"} 8.0
vllm:time_to_first_token_seconds_bucket{engine="0",le="+Inf"} 9.0
vllm:time_to_first_token_seconds_sum{engine="0"} 6.5
vllm:time_to_first_token_seconds_count{engine="0"} 9.0
vllm:time_to_first_token_seconds_bucket{engine="1",le="0.5"} 1.0
vllm:time_to_first_token_seconds_bucket{engine="1",le="1.0"} 1.0
vllm:time_to_first_token_seconds_bucket{engine="1",le="+Inf"} 1.0
vllm:time_to_first_token_seconds_sum{engine="1"} 0.25
vllm:time_to_first_token_seconds_count{engine="1"} 1.0
)";

TEST(Adapters, AnEngineIsAsleepUnlessItsMetricSaysAwake) {
  const auto asleep = [](const std::string& states) {
    const std::string text =
        "vllm:num_requests_running{engine=\"0\"} 0\nvllm:num_requests_waiting{engine=\"0\"} 0\n" + states;
    return read_scrape(*parse_exposition(text, "engine")).asleep;
  };
  const auto state = [](const std::string& engine, const std::string& name, int value) {
    return "vllm:engine_sleep_state{engine=\"" + engine + "\",sleep_state=\"" + name + "\"} " + std::to_string(value) +
           "\n";
  };
  EXPECT_EQ(asleep(""), std::nullopt);
  EXPECT_EQ(asleep(state("0", "awake", 1) + state("0", "weights_offloaded", 0)), false);
  EXPECT_EQ(asleep(state("0", "awake", 0) + state("0", "weights_offloaded", 1)), true);
  // With several engines behind one address, one that is awake takes requests.
  EXPECT_EQ(asleep(state("0", "awake", 0) + state("1", "awake", 1)), false);
}

TEST(Adapters, ReadAllMetricsOfVllm) {
  const EngineScrape scrape = scrape_of(std::string(kVllm));
  EXPECT_EQ(scrape.kind, EngineKind::kVllm);
  EXPECT_EQ(scrape.model, "meta/l\"3");
  EXPECT_EQ(scrape.running_requests, 7U);
  EXPECT_EQ(scrape.queued_requests, 2U);
  EXPECT_DOUBLE_EQ(scrape.kv_usage.value(), 0.375);
  EXPECT_EQ(scrape.deferred_requests, 1U);
  EXPECT_EQ(scrape.kv_capacity_tokens, 32000U);
  EXPECT_EQ(scrape.kv_used_tokens, 12000U);
  EXPECT_EQ(scrape.block_tokens, 16U);
  EXPECT_EQ(scrape.prompt_tokens_total, 1250000U);
  EXPECT_EQ(scrape.generation_tokens_total, 5000U);
  EXPECT_EQ(scrape.prefix_query_tokens_total, 1000U);
  EXPECT_EQ(scrape.prefix_hit_tokens_total, 400U);
  EXPECT_EQ(scrape.preemptions_total, 1U);
  EXPECT_EQ(scrape.completed_total, 9U);
  EXPECT_EQ(scrape.failed_total, 1U);
  EXPECT_EQ(scrape.iterations_total, 100U);
  ASSERT_TRUE(scrape.ttft_s);
  EXPECT_EQ(scrape.ttft_s->bounds, (std::vector<double>{0.5, 1.0}));
  EXPECT_EQ(scrape.ttft_s->counts, (std::vector<std::uint64_t>{5, 4, 1}));
  EXPECT_DOUBLE_EQ(scrape.ttft_s->sum, 6.75);
  EXPECT_FALSE(scrape.itl_s);
  EXPECT_FALSE(scrape.evictions_total);
}

TEST(Adapters, FiguresThatAnEngineLacksStayMissing) {
  const auto sample = to_sample(scrape_of("vllm:num_requests_running 3\nvllm:num_requests_waiting 40\n"), at_s(3));
  ASSERT_TRUE(sample);
  EXPECT_EQ(sample->queued_requests, 40U);
  for (const auto figure :
       {&EngineSample::queued_prefill_tokens, &EngineSample::inflight_prefill_tokens,
        &EngineSample::scheduled_kv_tokens, &EngineSample::queued_kv_tokens, &EngineSample::kv_used_tokens,
        &EngineSample::kv_capacity_tokens, &EngineSample::prompt_tokens_total, &EngineSample::prefix_hit_tokens_total,
        &EngineSample::generation_tokens_total, &EngineSample::completed_total, &EngineSample::preemptions_total,
        &EngineSample::evictions_total, &EngineSample::iterations_total})
    EXPECT_FALSE(((*sample).*figure).has_value());
  EXPECT_FALSE(sample->kv_usage() || sample->oldest_queued_age || sample->batch_merge_efficiency || sample->itl_s);
}

TEST(Adapters, WaitingRequestsByReasonAddUpToTheQueue) {
  const std::string reasons =
      "vllm:num_requests_running 3\nvllm:num_requests_waiting_by_reason{reason=\"capacity\"} 5\n"
      "vllm:num_requests_waiting_by_reason{reason=\"deferred\"} 2\n";
  const auto sample = to_sample(scrape_of(reasons), at_s(3));
  ASSERT_TRUE(sample);
  EXPECT_EQ(sample->queued_requests, 7U);
  EXPECT_EQ(sample->deferred_requests, 2U);
  const auto later = to_sample(scrape_of(reasons + "vllm:num_requests_waiting 1\n"), at_s(4));
  ASSERT_TRUE(later);
  EXPECT_EQ(later->queued_requests, 1U);
  EXPECT_EQ(later->deferred_requests, 1U) << "a part is not more than the whole";
  const auto older = to_sample(scrape_of("vllm:num_requests_running 3\nvllm:num_requests_waiting 4\n"), at_s(5));
  ASSERT_TRUE(older);
  EXPECT_FALSE(older->deferred_requests);
}

TEST(Adapters, KvUsageNeedsNoCapacity) {
  const auto sample = to_sample(
      scrape_of("vllm:num_requests_running 3\nvllm:num_requests_waiting 40\nvllm:kv_cache_usage_perc 0.2\n"), at_s(3));
  ASSERT_TRUE(sample);
  EXPECT_EQ(sample->kv_usage(), 0.2);
  EXPECT_FALSE(sample->kv_capacity_tokens);
}

TEST(Adapters, MakeASampleOfIt) {
  const auto sample = to_sample(scrape_of(std::string(kVllm)), at_s(3));
  ASSERT_TRUE(sample);
  EXPECT_EQ(sample->sampled_at, at_s(3));
  EXPECT_EQ(sample->queued_requests, 2U);
  EXPECT_EQ(sample->running_requests, 7U);
  EXPECT_EQ(sample->kv_used_tokens, 12000U);
  EXPECT_EQ(sample->kv_usage(), 0.375);
  EXPECT_EQ(sample->completed_total, 9U);
  EXPECT_EQ(sample->iterations.steps(), 0U);
}

TEST(Adapters, ReadTheNamesOfOlderVllm) {
  const EngineScrape scrape = scrape_of(
      "vllm:num_requests_running 1\nvllm:num_requests_waiting 0\nvllm:gpu_cache_usage_perc 0.5\n"
      "vllm:gpu_prefix_cache_hits_total 5\nvllm:gpu_prefix_cache_queries_total 9\n"
      "vllm:time_per_output_token_seconds_bucket{le=\"0.05\"} "
      "3\nvllm:time_per_output_token_seconds_bucket{le=\"+Inf\"} 3\n"
      "vllm:time_per_output_token_seconds_sum 0.1\n");
  EXPECT_EQ(scrape.kv_usage, 0.5);
  EXPECT_FALSE(scrape.kv_used_tokens);  // The capacity is unknown.
  EXPECT_EQ(scrape.prefix_hit_tokens_total, 5U);
  EXPECT_EQ(scrape.prefix_query_tokens_total, 9U);
  ASSERT_TRUE(scrape.itl_s);
  EXPECT_EQ(scrape.itl_s->count(), 3U);
}

TEST(Adapters, PreferTheNewerOfTwoNames) {
  const EngineScrape scrape = scrape_of("vllm:gpu_cache_usage_perc 0.9\nvllm:kv_cache_usage_perc 0.1\n");
  EXPECT_EQ(scrape.kv_usage, 0.1);
}

TEST(Adapters, ReadSglangsFirstRankAndItsSourcesOnce) {
  const EngineScrape scrape = scrape_of(
      "sglang:num_queue_reqs{model_name=\"q\",tp_rank=\"0\"} 3\nsglang:num_queue_reqs{model_name=\"q\",tp_rank=\"1\"} "
      "3\n"
      "sglang:num_running_reqs{tp_rank=\"0\"} 5\nsglang:token_usage{tp_rank=\"0\"} 1.004\n"
      "sglang:max_total_num_tokens{tp_rank=\"0\"} 50000\nsglang:cache_config_info{page_size=\"64\",num_pages=\"781\"} "
      "1\n"
      "sglang:prompt_tokens_total 900\nsglang:cached_tokens_total{cache_source=\"device\"} 300\n"
      "sglang:cached_tokens_total{cache_source=\"host\"} 100\nsglang:cached_tokens_total{cache_source=\"total\"} 400\n"
      "sglang:num_requests_total 12\nsglang:num_aborted_requests_total 2\n");
  EXPECT_EQ(scrape.kind, EngineKind::kSglang);
  EXPECT_EQ(scrape.queued_requests, 3U);
  EXPECT_EQ(scrape.kv_usage, 1.0);
  EXPECT_EQ(scrape.kv_used_tokens, 50000U);
  EXPECT_EQ(scrape.block_tokens, 64U);
  EXPECT_EQ(scrape.prefix_hit_tokens_total, 400U);
  EXPECT_EQ(scrape.prefix_query_tokens_total, 900U);
  EXPECT_EQ(scrape.completed_total, 12U);
  EXPECT_EQ(scrape.failed_total, 2U);
  EXPECT_EQ(scrape_of("sglang:cached_tokens_total 30\n").prefix_hit_tokens_total, 30U);
}

// What a scheduler of SGLang with data-parallel ranks exposes.
std::string scheduler_of_sglang(const std::string& data_rank, const std::string& tensor_rank,
                                const std::string& stage = "0") {
  const std::string labels =
      "{dp_rank=\"" + data_rank + "\",pp_rank=\"" + stage + "\",tp_rank=\"" + tensor_rank + "\"} ";
  return "sglang:num_queue_reqs" + labels + "3\nsglang:num_running_reqs" + labels + "5\nsglang:kv_used_tokens" +
         labels + "1000\nsglang:max_total_num_tokens" + labels + "50000\nsglang:num_decode_transfer_queue_reqs" +
         labels + "2\nsglang:token_usage" + labels + (data_rank == "0" ? "0.2\n" : "0.4\n");
}

void expect_two_data_parallel_ranks(const std::string& text) {
  const EngineScrape scrape = scrape_of(text);
  EXPECT_EQ(scrape.queued_requests, 6U);
  EXPECT_EQ(scrape.running_requests, 10U);
  EXPECT_EQ(scrape.kv_used_tokens, 2000U);
  EXPECT_EQ(scrape.kv_capacity_tokens, 100000U);
  EXPECT_EQ(scrape.open_transfers, 4U);
  EXPECT_DOUBLE_EQ(scrape.kv_usage.value(), 0.3);
}

// --tp 32 --dp 2 --enable-dp-attention: a scheduler has its tensor rank in the whole server. Two digits come before one
// if they are compared as text.
TEST(Adapters, SumTheDataParallelRanksOfDpAttention) {
  const std::string first_of_each = scheduler_of_sglang("0", "0") + scheduler_of_sglang("1", "16");
  expect_two_data_parallel_ranks(first_of_each);
  // --enable-metrics-for-all-schedulers
  expect_two_data_parallel_ranks(scheduler_of_sglang("1", "17") + scheduler_of_sglang("0", "2") + first_of_each);
  expect_two_data_parallel_ranks(scheduler_of_sglang("0", "9") + scheduler_of_sglang("0", "10") +
                                 scheduler_of_sglang("1", "16"));
  expect_two_data_parallel_ranks(scheduler_of_sglang("1", "0", "1") + first_of_each);
}

TEST(Adapters, SumTheDataParallelRanksOfSeparateInstances) {
  expect_two_data_parallel_ranks(scheduler_of_sglang("0", "0") + scheduler_of_sglang("0", "1") +
                                 scheduler_of_sglang("1", "0") + scheduler_of_sglang("1", "1"));
}

TEST(Adapters, PrioritiesOfSglangDoNotCountBesideTheirTotal) {
  const EngineScrape scrape = scrape_of(
      "sglang:num_queue_reqs{priority=\"\",tp_rank=\"0\"} 3\nsglang:num_queue_reqs{priority=\"1\",tp_rank=\"0\"} 1\n"
      "sglang:num_queue_reqs{priority=\"2\",tp_rank=\"0\"} 2\nsglang:num_running_reqs{priority=\"\",tp_rank=\"0\"} 4\n"
      "sglang:num_running_reqs{priority=\"None\",tp_rank=\"0\"} 4\n"
      "sglang:num_decode_transfer_queue_reqs{priority=\"\",tp_rank=\"0\"} 2\n"
      "sglang:num_decode_transfer_queue_reqs{priority=\"1\",tp_rank=\"0\"} 2\n"
      "sglang:token_usage{priority=\"\",tp_rank=\"0\"} 0.5\n"
      // Requests without a priority count under the empty one, which is no total here.
      "sglang:prompt_tokens_total{priority=\"\"} 100\nsglang:prompt_tokens_total{priority=\"1\"} 300\n"
      "sglang:num_requests_total{priority=\"2\"} 7\n");
  EXPECT_EQ(scrape.queued_requests, 3U);
  EXPECT_EQ(scrape.running_requests, 4U);
  EXPECT_EQ(scrape.open_transfers, 2U);
  EXPECT_EQ(scrape.kv_usage, 0.5);
  EXPECT_EQ(scrape.prompt_tokens_total, 400U);
  EXPECT_EQ(scrape.completed_total, 7U);
}

TEST(Adapters, ReadOpenTransfersWhereTheyAreReported) {
  const std::string sglang = "sglang:num_queue_reqs 0\nsglang:num_running_reqs 0\n";
  const auto transfers = [](const std::string& text) { return to_sample(scrape_of(text), at_s(3))->open_transfers; };
  EXPECT_EQ(transfers(sglang), std::nullopt);
  EXPECT_EQ(transfers(sglang + "sglang:num_prefill_inflight_queue_reqs 3\nsglang:num_decode_transfer_queue_reqs 1\n"),
            4U);
  EXPECT_EQ(
      transfers("vllm:num_requests_running 0\nvllm:num_requests_waiting 0\npenstock_engine_kv_transfers_open 2\n"), 2U);
}

TEST(Adapters, ReadTensorRtLlmInBlocks) {
  const EngineScrape scrape = scrape_of(
      "trtllm_num_requests_waiting{model_name=\"m\"} 1\ntrtllm_num_requests_running 2\n"
      "trtllm_kv_cache_max_blocks 100\ntrtllm_kv_cache_used_blocks 25\ntrtllm_kv_cache_tokens_per_block 32\n"
      "trtllm_kv_cache_reused_blocks_total 10\ntrtllm_kv_cache_missed_blocks_total 30\n"
      "trtllm_request_success_total{finished_reason=\"stop\"} "
      "4\ntrtllm_request_success_total{finished_reason=\"cancelled\"} 9\n");
  EXPECT_EQ(scrape.kind, EngineKind::kTensorRtLlm);
  EXPECT_EQ(scrape.kv_capacity_tokens, 3200U);
  EXPECT_EQ(scrape.kv_used_tokens, 800U);
  EXPECT_EQ(scrape.kv_usage, 0.25);
  EXPECT_EQ(scrape.prefix_hit_tokens_total, 320U);
  EXPECT_EQ(scrape.prefix_query_tokens_total, 1280U);
  EXPECT_EQ(scrape.completed_total, 4U);
}

TEST(Adapters, ReadTritonWithAndWithoutWaitingRequests) {
  const std::string common =
      "nv_trt_llm_request_metrics{model=\"tensorrt_llm\",request_type=\"active\",version=\"1\"} 7\n"
      "nv_trt_llm_request_metrics{model=\"tensorrt_llm\",request_type=\"scheduled\",version=\"1\"} 5\n"
      "nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type=\"fraction\"} 0.5\n"
      "nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type=\"max\"} 100\n"
      "nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type=\"tokens_per\"} 64\n"
      "nv_inference_first_response_histogram_ms_bucket{le=\"500\"} 3\n"
      "nv_inference_first_response_histogram_ms_bucket{le=\"+Inf\"} 3\nnv_inference_first_response_histogram_ms_sum "
      "900\n";
  const EngineScrape older = scrape_of(common);
  EXPECT_EQ(older.kind, EngineKind::kTriton);
  EXPECT_EQ(older.model, "tensorrt_llm");
  EXPECT_EQ(older.queued_requests, 2U);
  EXPECT_EQ(older.kv_used_tokens, 3200U);
  ASSERT_TRUE(older.ttft_s);
  EXPECT_EQ(older.ttft_s->bounds, std::vector<double>{0.5});
  EXPECT_DOUBLE_EQ(older.ttft_s->sum, 0.9);
  EXPECT_EQ(scrape_of(common + "nv_trt_llm_request_metrics{request_type=\"waiting\"} 1\n").queued_requests, 1U);
  const EngineScrape plain = scrape_of("nv_inference_pending_request_count{model=\"m\"} 4\n");
  EXPECT_EQ(plain.queued_requests, 4U);
  EXPECT_FALSE(plain.running_requests);
}

TEST(Adapters, ReadTgiAndDynamo) {
  const EngineScrape tgi = scrape_of(
      "tgi_queue_size 3\ntgi_batch_current_size 8\ntgi_batch_current_max_tokens 1000\ntgi_batch_max_total_tokens 4000\n"
      "tgi_request_input_length_sum 900\ntgi_request_success{method=\"generate\"} 11\n");
  EXPECT_EQ(tgi.kind, EngineKind::kTgi);
  EXPECT_EQ(tgi.kv_usage, 0.25);
  EXPECT_EQ(tgi.prompt_tokens_total, 900U);
  EXPECT_EQ(tgi.completed_total, 11U);
  const EngineScrape dynamo = scrape_of(
      "dynamo_frontend_queued_requests{model=\"q\"} 3\ndynamo_frontend_inflight_requests{model=\"q\"} 10\n"
      "dynamo_frontend_output_sequence_tokens_sum 70\ndynamo_frontend_requests_total{status=\"success\"} 6\n");
  EXPECT_EQ(dynamo.kind, EngineKind::kDynamo);
  EXPECT_EQ(dynamo.running_requests, 7U);
  EXPECT_EQ(dynamo.generation_tokens_total, 70U);
  EXPECT_EQ(dynamo.completed_total, 6U);
  EXPECT_FALSE(dynamo.kv_usage);
}

TEST(Adapters, ReadsLlamaCpp) {
  const EngineScrape scrape = scrape_of(
      "llamacpp:prompt_tokens_total 28\nllamacpp:prompt_tokens_cached_total 27\nllamacpp:tokens_predicted_total 50\n"
      "llamacpp:n_decode_total 51\nllamacpp:requests_processing 2\nllamacpp:requests_deferred 3\n");
  EXPECT_EQ(scrape.kind, EngineKind::kLlamaCpp);
  EXPECT_STREQ(to_string(scrape.kind), "llama_cpp");
  EXPECT_EQ(scrape.queued_requests, 3U);
  EXPECT_EQ(scrape.running_requests, 2U);
  EXPECT_EQ(scrape.prompt_tokens_total, 55U);
  EXPECT_EQ(scrape.prefix_hit_tokens_total, 27U);
  EXPECT_EQ(scrape.generation_tokens_total, 50U);
  EXPECT_EQ(scrape.iterations_total, 51U);
  EXPECT_FALSE(scrape.kv_usage || scrape.kv_capacity_tokens || scrape.ttft_s);
}

TEST(Adapters, TreatMissingOrImpossibleValuesAsUnknown) {
  const EngineScrape scrape = scrape_of(
      "vllm:num_requests_running NaN\nvllm:num_requests_waiting -1\nvllm:kv_cache_usage_perc 1.5\n"
      "vllm:prompt_tokens_total +Inf\nvllm:time_to_first_token_seconds_bucket{le=\"1\"} 5\n"
      "vllm:time_to_first_token_seconds_bucket{le=\"+Inf\"} 4\nvllm:inter_token_latency_seconds_bucket{le=\"1\"} 4\n");
  EXPECT_FALSE(scrape.running_requests);
  EXPECT_FALSE(scrape.queued_requests);
  EXPECT_FALSE(scrape.kv_usage);
  EXPECT_FALSE(scrape.prompt_tokens_total);
  EXPECT_FALSE(scrape.generation_tokens_total);
  EXPECT_FALSE(scrape.ttft_s);
  EXPECT_FALSE(scrape.itl_s);
  EXPECT_FALSE(to_sample(scrape, at_s(1)));
}

TEST(Adapters, IgnoreOtherServers) {
  EXPECT_EQ(scrape_of("node_load1 0.5\nllm_queue_depth 3\n").kind, EngineKind::kUnknown);
  EXPECT_EQ(scrape_of("").kind, EngineKind::kUnknown);
  EXPECT_STREQ(to_string(EngineKind::kTensorRtLlm), "tensorrt_llm");
}

}  // namespace
}  // namespace penstock::telemetry
