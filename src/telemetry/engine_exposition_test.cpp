#include "telemetry/engine_exposition.h"

#include <gtest/gtest.h>

#include <string>

#include "telemetry/adapters.h"
#include "telemetry/exposition_check_testing.h"

namespace penstock::telemetry {
namespace {

EngineFigures busy_engine() {
  EngineFigures figures;
  figures.model = "meta \"llama\"\\3\n";
  EngineSample& sample = figures.sample;
  sample.sampled_at = core::kStart + std::chrono::seconds{9};
  sample.queued_requests = 5;
  sample.running_requests = 3;
  sample.queued_prefill_tokens = 700;
  sample.inflight_prefill_tokens = 90;
  sample.scheduled_kv_tokens = 4000;
  sample.queued_kv_tokens = 33;
  sample.kv_used_tokens = 3999;
  sample.kv_capacity_tokens = 64000;
  sample.prompt_tokens_total = 123456789;
  sample.prefix_hit_tokens_total = 4000;
  sample.generation_tokens_total = 98765;
  sample.completed_total = 42;
  sample.preemptions_total = 2;
  sample.evictions_total = 11;
  sample.oldest_queued_age = std::chrono::milliseconds{1250};
  sample.batch_merge_efficiency = 0.375;
  figures.preempted_requests = 2;
  figures.block_tokens = 16;
  figures.kv_bytes_per_token = 131072;
  figures.prefix_query_tokens_total = 120000000;
  figures.finished = {40, 2, 1, 3};
  figures.decode_step_p95_ms = 12.5;
  figures.prefill_p95_ms = 80.25;
  for (int i = 0; i < 100; ++i) {
    figures.ttft_s.add(0.01 * i);
    figures.itl_s.add(0.001 * i);
    figures.iteration_tokens.add(i);
    figures.prompt_tokens.add(100 * i);
    figures.generation_tokens.add(3 * i);
  }
  figures.request_s.add(1e9);
  return figures;
}

std::string shown(const EngineFigures& figures) { return engine_exposition(figures); }

Exposition parsed(const std::string& text) {
  auto exposition = parse_exposition(text, "engine");
  EXPECT_TRUE(exposition) << exposition.error().message();
  return std::move(*exposition);
}

TEST(EngineExposition, IsValidBusyAndEmpty) {
  for (const EngineFigures& figures : {busy_engine(), EngineFigures{}}) {
    const std::string text = shown(figures);
    EXPECT_EQ(check_exposition(parsed(text)), std::vector<std::string>{});
    EXPECT_LT(text.size(), 64U * 1024);
  }
}

TEST(EngineExposition, IsReadBackByTheAdapterWithoutLoss) {
  const EngineFigures figures = busy_engine();
  const std::string text = shown(figures);
  const EngineScrape scrape = read_scrape(parsed(text));
  EXPECT_EQ(scrape.kind, EngineKind::kPenstock);
  EXPECT_EQ(scrape.model, figures.model);
  EXPECT_EQ(scrape.block_tokens, 16U);
  EXPECT_EQ(scrape.prefix_query_tokens_total, 120000000U);
  EXPECT_EQ(scrape.failed_total, 4U);
  const auto sample = to_sample(scrape, figures.sample.sampled_at);
  ASSERT_TRUE(sample);
  const EngineSample& wanted = figures.sample;
  EXPECT_EQ(sample->queued_requests, wanted.queued_requests);
  EXPECT_EQ(sample->running_requests, wanted.running_requests);
  EXPECT_EQ(sample->queued_prefill_tokens, wanted.queued_prefill_tokens);
  EXPECT_EQ(sample->inflight_prefill_tokens, wanted.inflight_prefill_tokens);
  EXPECT_EQ(sample->scheduled_kv_tokens, wanted.scheduled_kv_tokens);
  EXPECT_EQ(sample->queued_kv_tokens, wanted.queued_kv_tokens);
  EXPECT_EQ(sample->kv_used_tokens, wanted.kv_used_tokens);
  EXPECT_EQ(sample->kv_capacity_tokens, wanted.kv_capacity_tokens);
  EXPECT_EQ(sample->prompt_tokens_total, wanted.prompt_tokens_total);
  EXPECT_EQ(sample->prefix_hit_tokens_total, wanted.prefix_hit_tokens_total);
  EXPECT_EQ(sample->generation_tokens_total, wanted.generation_tokens_total);
  EXPECT_EQ(sample->completed_total, wanted.completed_total);
  EXPECT_EQ(sample->preemptions_total, wanted.preemptions_total);
  EXPECT_EQ(sample->evictions_total, wanted.evictions_total);
  EXPECT_EQ(sample->oldest_queued_age, wanted.oldest_queued_age);
  EXPECT_EQ(sample->batch_merge_efficiency, wanted.batch_merge_efficiency);
  for (const auto& [read, written] : {std::pair(scrape.ttft_s, figures.ttft_s),
                                      {scrape.itl_s, figures.itl_s},
                                      {scrape.request_s, figures.request_s},
                                      {scrape.queue_s, figures.queue_s},
                                      {scrape.prompt_length, figures.prompt_tokens},
                                      {scrape.output_length, figures.generation_tokens},
                                      {scrape.iteration_tokens, figures.iteration_tokens}}) {
    ASSERT_TRUE(read);
    EXPECT_EQ(read->bounds, written.bounds);
    EXPECT_EQ(read->counts, written.counts);
    EXPECT_EQ(read->sum, written.sum);
  }
}

TEST(EngineExposition, ReadsAsVllmWithoutItsOwnNames) {
  std::string text;
  std::size_t at = 0;
  const std::string all = shown(busy_engine());
  while (at < all.size()) {
    const std::size_t end = all.find('\n', at) + 1;
    const std::string line = all.substr(at, end - at);
    if (line.find("penstock_engine_") == std::string::npos) text += line;
    at = end;
  }
  const EngineScrape scrape = read_scrape(parsed(text));
  EXPECT_EQ(scrape.kind, EngineKind::kVllm);
  EXPECT_EQ(scrape.kv_used_tokens, 3999U);
  EXPECT_EQ(scrape.kv_capacity_tokens, 64000U);
}

TEST(EngineExposition, ShowsTheTokenAndModelMetricsByTheirNames) {
  EngineFigures figures = busy_engine();
  figures.model = "m";
  const std::string text = shown(figures);
  for (const std::string_view line :
       {"tokens_in_total{model_name=\"m\"} 123456789\n", "tokens_out_total{model_name=\"m\"} 98765\n",
        "active_sequences{model_name=\"m\"} 3\n", "prefill_queue_len{model_name=\"m\"} 3\n",
        "decode_queue_len{model_name=\"m\"} 2\n", "kv_cache_bytes_used{model_name=\"m\"} 524156928\n",
        "kv_cache_bytes_capacity{model_name=\"m\"} 8388608000\n", "kv_cache_evictions_total{model_name=\"m\"} 11\n",
        "batch_merge_efficiency{model_name=\"m\"} 0.375\n", "latency_p95_decode_step_ms{model_name=\"m\"} 12.5\n",
        "latency_p95_prefill_ms{model_name=\"m\"} 80.25\n", "llm_ttft_seconds_count{model_id=\"m\"} 100\n",
        "llm_tpot_seconds_bucket{model_id=\"m\",le=\"0.05\"} 0\n", "llm_queue_depth{model_id=\"m\"} 5\n",
        "llm_kv_cache_usage_ratio{model_id=\"m\"} 0.062484375\n",
        "llm_tokens_processed_total{model_id=\"m\",token_type=\"input\"} 123456789\n",
        "llm_tokens_processed_total{model_id=\"m\",token_type=\"output\"} 98765\n",
        "vllm:num_requests_waiting{model_name=\"m\",engine=\"0\"} 5\n"})
    EXPECT_NE(text.find(line), std::string::npos) << line;
}

}  // namespace
}  // namespace penstock::telemetry
