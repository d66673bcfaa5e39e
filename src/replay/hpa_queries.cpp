#include "replay/hpa_queries.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace penstock::replay {
namespace {

struct Series {
  std::string_view engine, completed, running, queued, input_tokens, output_tokens, kv_usage;
};
constexpr std::array kSeries{
    Series{"vllm", "vllm:request_success_total", "vllm:num_requests_running", "vllm:num_requests_waiting",
           "vllm:prompt_tokens_total", "vllm:generation_tokens_total", "vllm:kv_cache_usage_perc"},
    Series{"sglang", "sglang:num_requests_total", "sglang:num_running_reqs", "sglang:num_queue_reqs",
           "sglang:prompt_tokens_total", "sglang:generation_tokens_total", "sglang:token_usage"},
};

}  // namespace

std::vector<std::string_view> queried_engines() {
  std::vector<std::string_view> engines;
  for (const Series& series : kSeries) engines.push_back(series.engine);
  return engines;
}

std::string hpa_query(planner::PoolMetric metric, std::string_view engine, std::string_view matchers) {
  const auto* found = std::find_if(kSeries.begin(), kSeries.end(), [&](const Series& s) { return s.engine == engine; });
  PENSTOCK_ASSERT(found != kSeries.end(), "the caller takes one of queried_engines()");
  const auto sum = [&](std::string_view series) { return fmt::format("sum({}{{{}}})", series, matchers); };
  const auto rate = [&](std::string_view series) { return fmt::format("sum(rate({}{{{}}}[1m]))", series, matchers); };
  switch (metric) {
    case planner::PoolMetric::kRequestRate: return rate(found->completed);
    case planner::PoolMetric::kRequestsInFlight: return sum(found->running) + " + " + sum(found->queued);
    case planner::PoolMetric::kInputTokenRate: return rate(found->input_tokens);
    case planner::PoolMetric::kOutputTokenRate: return rate(found->output_tokens);
    case planner::PoolMetric::kKvUsage: return sum(found->kv_usage);
  }
  PENSTOCK_ASSERT(false, "every metric has a query");
}

std::string_view trigger_name(planner::PoolMetric metric) {
  switch (metric) {
    case planner::PoolMetric::kRequestRate: return "request-rate";
    case planner::PoolMetric::kRequestsInFlight: return "requests-in-flight";
    case planner::PoolMetric::kInputTokenRate: return "prompt-tokens";
    case planner::PoolMetric::kOutputTokenRate: return "output-tokens";
    case planner::PoolMetric::kKvUsage: return "kv-cache";
  }
  PENSTOCK_ASSERT(false, "every metric has a name");
}

}  // namespace penstock::replay
