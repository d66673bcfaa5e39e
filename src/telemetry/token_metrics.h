// One set of metric names for all engines: the token metrics (tokens_in_total, …) and those that autoscalers query
// (llm_queue_depth, …). docs/telemetry.md lists them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "telemetry/adapters.h"
#include "telemetry/exposition_writer.h"
#include "telemetry/histogram.h"

namespace penstock::telemetry {

// The figures of one engine. An unknown figure has no series; it is not zero.
struct TokenFigures {
  std::string model;          // Value of the label model_name, and of model_id in the series llm_….
  std::string labels;         // Further labels in the format's syntax: `pool="chat",replica="chat-1"`. May be empty.
  std::uint32_t workers = 1;  // Engines behind the address.

  std::optional<std::uint64_t> tokens_in, tokens_out;
  std::optional<std::uint64_t> active_sequences;
  std::optional<std::uint64_t> prefill_queue, decode_queue;  // Requests; their sum is llm_queue_depth.
  std::optional<double> kv_bytes_used, kv_bytes_capacity;
  std::optional<double> kv_usage;  // Range 0 to 1.
  std::optional<std::uint64_t> evictions, preemptions;
  std::optional<std::uint64_t> prefix_queries, prefix_hits;  // Prompt tokens.
  std::optional<double> batch_merge_efficiency;              // Range 0 to 1.
  std::optional<double> decode_step_p95_ms, prefill_p95_ms;  // Over about the last minute.
  std::optional<Histogram> ttft_s, tpot_s;
  std::optional<double> ttft_mean_s, tpot_mean_s;  // Over about the last minute.
};

// Converts a scrape. Percentiles cover the time since `before`, a scrape of the same engine about a minute earlier;
// they are missing without it, and if the engine restarted in between. The bytes of the KV cache of an engine that
// does not report them are unknown without `kv_bytes_per_token`.
[[nodiscard]] TokenFigures token_figures(const EngineScrape& now, const EngineScrape* before,
                                         std::optional<double> kv_bytes_per_token);

// Share of the sequence slots that are filled; empty without slots.
[[nodiscard]] std::optional<double> filled_share(std::uint64_t running, std::uint64_t slots);

// Writes each family once, with one series per engine that has the figure.
void append_token_metrics(ExpositionWriter& writer, std::span<const TokenFigures> engines);

// The series llm_… alone, with llm_ttft_seconds and llm_tpot_seconds as gauges instead of histograms. One exposition
// cannot contain both.
void append_token_gauges(ExpositionWriter& writer, std::span<const TokenFigures> engines);

}  // namespace penstock::telemetry
