// One set of names for the tokens of engines of any make: the token metrics (tokens_in_total, …) and those that autoscalers
// ask for (llm_queue_depth, …). docs/telemetry.md lists them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "telemetry/adapters.h"
#include "telemetry/histogram.h"

namespace penstock::telemetry {

// Of one engine. What is not known is no series, never a zero.
struct TokenFigures {
  std::string model;   // the label model_name, and model_id of the series llm_…
  std::string labels;  // more of them, as the format has them: `pool="chat",replica="chat-1"`; may be empty

  std::optional<std::uint64_t> tokens_in, tokens_out;
  std::optional<std::uint64_t> active_sequences;
  std::optional<std::uint64_t> prefill_queue, decode_queue;  // requests; their sum is llm_queue_depth
  std::optional<double> kv_bytes_used, kv_bytes_capacity;
  std::optional<double> kv_usage;  // 0..1
  std::optional<std::uint64_t> evictions;
  std::optional<double> batch_merge_efficiency;              // 0..1
  std::optional<double> decode_step_p95_ms, prefill_p95_ms;  // of the last minute or so
  std::optional<Histogram> ttft_s, tpot_s;
};

// What a scrape says. Percentiles are of what came since `before`, a scrape of the same engine a minute ago or so; without
// it, and where the engine began anew in between, there are none.
[[nodiscard]] TokenFigures token_figures(const EngineScrape& now, const EngineScrape* before,
                                         double kv_bytes_per_token);

// Each family once, with a series for each engine that tells it. Text format 0.0.4.
void append_token_metrics(std::string& text, std::span<const TokenFigures> engines);

}  // namespace penstock::telemetry
