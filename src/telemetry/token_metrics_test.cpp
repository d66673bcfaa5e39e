#include "telemetry/token_metrics.h"

#include <gtest/gtest.h>

#include <array>
#include <fstream>
#include <iterator>
#include <string>

#include "core/source_root_testing.h"
#include "telemetry/engine_exposition.h"
#include "telemetry/exposition_check_testing.h"

namespace penstock::telemetry {
namespace {

EngineScrape scrape_of(const std::string& text) {
  const auto parsed = parse_exposition(text, "engine");
  EXPECT_TRUE(parsed) << parsed.error().message();
  return read_scrape(*parsed);
}

std::string shown(std::span<const TokenFigures> engines) {
  std::string text;
  ExpositionWriter writer{text};
  append_token_metrics(writer, engines);
  const auto parsed = parse_exposition(text, "metrics");
  EXPECT_TRUE(parsed) << parsed.error().message();
  EXPECT_EQ(check_exposition(*parsed), std::vector<std::string>{}) << text;
  return text;
}

void expect_lines(const std::string& text, std::span<const char* const> lines) {
  for (const char* line : lines) EXPECT_NE(text.find(std::string{line} + "\n"), std::string::npos) << line << text;
}

TEST(TokenMetrics, AreTheSameForEnginesOfAnyMake) {
  std::array engines{
      token_figures(
          scrape_of("vllm:num_requests_running{model_name=\"m\"} 3\nvllm:num_requests_waiting{model_name=\"m\"} 5\n"
                    "vllm:kv_cache_usage_perc{model_name=\"m\"} 0.5\n"
                    "vllm:cache_config_info{block_size=\"16\",num_gpu_blocks=\"1000\"} 1\n"
                    "vllm:prompt_tokens_total{model_name=\"m\"} 700\n"
                    "vllm:generation_tokens_total{model_name=\"m\"} 30\n"),
          nullptr, 1024.0),
      token_figures(
          scrape_of("sglang:num_running_reqs{model_name=\"s\"} 1\nsglang:num_queue_reqs{model_name=\"s\"} 2\n"
                    "sglang:token_usage{model_name=\"s\"} 0.25\nsglang:prompt_tokens_total{model_name=\"s\"} 9\n"
                    "sglang:time_to_first_token_seconds_bucket{model_name=\"s\",le=\"0.5\"} 4\n"
                    "sglang:time_to_first_token_seconds_bucket{model_name=\"s\",le=\"+Inf\"} 5\n"
                    "sglang:time_to_first_token_seconds_sum{model_name=\"s\"} 3\n"
                    "sglang:time_to_first_token_seconds_count{model_name=\"s\"} 5\n"),
          nullptr, 1024.0)};
  engines[0].labels = R"(pool="chat",replica="a")";
  const std::string text = shown(engines);
  constexpr const char* kLines[] = {
      R"(tokens_in_total{model_name="m",pool="chat",replica="a"} 700)",
      R"(tokens_in_total{model_name="s"} 9)",
      R"(active_sequences{model_name="s"} 1)",
      R"(prefill_queue_len{model_name="m",pool="chat",replica="a"} 5)",
      R"(kv_cache_bytes_used{model_name="m",pool="chat",replica="a"} 8192000)",
      R"(kv_cache_bytes_capacity{model_name="m",pool="chat",replica="a"} 16384000)",
      R"(llm_kv_cache_usage_ratio{model_id="s"} 0.25)",
      R"(llm_queue_depth{model_id="m",pool="chat",replica="a"} 5)",
      R"(llm_ttft_seconds_bucket{model_id="s",le="0.5"} 4)",
      R"(llm_ttft_seconds_count{model_id="s"} 5)",
      R"(llm_tokens_processed_total{model_id="m",pool="chat",replica="a",token_type="output"} 30)"};
  expect_lines(text, kLines);
  for (const char* unknown :
       {"decode_queue_len", "evictions", "latency_p95", "llm_tpot", "tokens_out_total{model_name=\"s\"",
        "kv_cache_bytes_used{model_name=\"s\"", "token_type=\"output\",model"})
    EXPECT_EQ(text.find(unknown), std::string::npos) << unknown;
}

// The series that an engine of this make exposes, as it was captured.
TokenFigures captured(const std::string& engine, std::optional<double> kv_bytes_per_token = {}) {
  std::ifstream file(core::testing::source_root() / "tests/engines/captured" / (engine + ".txt"), std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  EXPECT_FALSE(text.empty()) << engine;
  return token_figures(scrape_of(text), nullptr, kv_bytes_per_token);
}

TEST(TokenMetrics, PreemptionsAndPrefixHitsOfVllmAreExported) {
  const std::string text = shown(std::array{captured("vllm")});
  constexpr const char* kLines[] = {
      R"(num_preemptions_total{model_name="tiny"} 0)", R"(prefix_cache_queries_total{model_name="tiny"} 3289)",
      R"(prefix_cache_hits_total{model_name="tiny"} 2560)", R"(active_sequences{model_name="tiny"} 2)"};
  expect_lines(text, kLines);
  // It exposes neither evictions nor the number of its sequences.
  for (const char* unknown : {"kv_cache_evictions_total", "batch_merge_efficiency"})
    EXPECT_EQ(text.find(unknown), std::string::npos) << unknown;
}

TEST(TokenMetrics, BytesOfTheKvCacheNeedTheBytesOfAToken) {
  for (const char* engine : {"vllm", "sglang", "tgi", "tensorrt_llm"}) {
    EXPECT_EQ(shown(std::array{captured(engine)}).find("kv_cache_bytes"), std::string::npos) << engine;
    EXPECT_NE(shown(std::array{captured(engine, 1024.0)}).find("kv_cache_bytes_capacity{"), std::string::npos)
        << engine;
  }
  const TokenFigures known = captured("vllm", 1024.0);
  EXPECT_EQ(known.kv_bytes_capacity, 1'073'741'824.0);
  EXPECT_EQ(known.kv_bytes_used, 512.0 * 1024.0);
}

TEST(TokenMetrics, TheBatchEfficiencyOfTritonIsTheShareOfItsSequencesThatRun) {
  const std::string text =
      "nv_trt_llm_request_metrics{model=\"m\",request_type=\"active\"} 7\n"
      "nv_trt_llm_request_metrics{model=\"m\",request_type=\"scheduled\"} 5\n"
      "nv_trt_llm_request_metrics{model=\"m\",request_type=\"waiting\"} 2\n";
  EXPECT_FALSE(token_figures(scrape_of(text), nullptr, {}).batch_merge_efficiency);
  const std::string most = "nv_trt_llm_request_metrics{model=\"m\",request_type=\"max\"} 20\n";
  EXPECT_EQ(token_figures(scrape_of(text + most), nullptr, {}).batch_merge_efficiency, 0.25);
  EXPECT_EQ(filled_share(9, 4), 1.0);
  EXPECT_FALSE(filled_share(9, 0));
}

TEST(TokenMetrics, WithoutEnginesAreEmpty) {
  EXPECT_EQ(shown({}), "");
  EXPECT_EQ(shown(std::array{TokenFigures{}}), "");
}

TEST(TokenMetrics, PercentilesCoverTheTimeSinceTheLastScrape) {
  EngineFigures figures;
  figures.model = "m";
  for (int i = 0; i < 100; ++i) figures.itl_s.add(0.5);
  for (int i = 0; i < 100; ++i) figures.prefill_s.add(9.0);
  const EngineScrape before = scrape_of(engine_exposition(figures));
  for (int i = 0; i < 100; ++i) figures.itl_s.add(0.0099);
  const EngineScrape now = scrape_of(engine_exposition(figures));
  const TokenFigures told = token_figures(now, &before, 1.0);
  ASSERT_TRUE(told.decode_step_p95_ms);
  EXPECT_NEAR(*told.decode_step_p95_ms, 9.75, 0.01);
  EXPECT_FALSE(told.prefill_p95_ms) << "no prompt was computed in between";
  EXPECT_FALSE(token_figures(now, nullptr, 1.0).decode_step_p95_ms);
  EXPECT_FALSE(token_figures(before, &now, 1.0).decode_step_p95_ms) << "the engine began anew";
}

// What an engine of ours says of itself is what the adapter makes of it.
TEST(TokenMetrics, MatchThoseOfPenstocksEngine) {
  EngineFigures figures;
  figures.model = "m";
  figures.kv_bytes_per_token = 100;
  figures.block_tokens = 16;
  figures.preempted_requests = 2;
  figures.sample.queued_requests = 7;
  figures.sample.running_requests = 3;
  figures.sample.kv_used_tokens = 320;
  figures.sample.kv_capacity_tokens = 1600;
  figures.sample.prompt_tokens_total = 1234;
  figures.sample.generation_tokens_total = 99;
  figures.sample.evictions_total = 4;
  figures.sample.batch_merge_efficiency = 0.25;
  figures.ttft_s.add(0.3);
  figures.tpot_s.add(0.02);
  const std::string own = engine_exposition(figures);
  const std::string adapted = shown(std::array{token_figures(scrape_of(own), nullptr, 100.0)});
  std::size_t lines = 0;
  for (std::size_t at = 0; at < adapted.size(); ++lines) {
    const std::size_t end = adapted.find('\n', at);
    EXPECT_NE(own.find(adapted.substr(at, end - at + 1)), std::string::npos) << adapted.substr(at, end - at);
    at = end + 1;
  }
  EXPECT_GT(lines, 70U);
  EXPECT_EQ(shown(std::array{token_figures(scrape_of(own), nullptr, {})}), adapted) << "it reports its own bytes";
}

}  // namespace
}  // namespace penstock::telemetry
