#include "telemetry/token_metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <vector>

namespace penstock::telemetry {
namespace {

// What the engine reports comes first.
std::optional<double> bytes_of(const std::optional<std::uint64_t>& bytes, const std::optional<std::uint64_t>& tokens,
                               std::optional<double> bytes_per_token) {
  if (bytes) return static_cast<double>(*bytes);
  if (!tokens || !bytes_per_token) return std::nullopt;
  return static_cast<double>(*tokens) * *bytes_per_token;
}

std::optional<double> p95_ms_between(const std::optional<Histogram>& before, const std::optional<Histogram>& after) {
  if (!before || !after) return std::nullopt;
  const auto between = difference(*before, *after);
  if (!between || between->count() == 0) return std::nullopt;
  return between->quantile(0.95) * 1e3;
}

std::optional<double> mean_between(const std::optional<Histogram>& before, const std::optional<Histogram>& after) {
  if (!before || !after) return std::nullopt;
  const auto between = difference(*before, *after);
  if (!between || between->count() == 0) return std::nullopt;
  return std::max(0.0, after->sum - before->sum) / static_cast<double>(between->count());
}

class TokenWriter {
 public:
  TokenWriter(ExpositionWriter& writer, std::span<const TokenFigures> engines, std::string_view model_label)
      : writer_(writer), engines_(engines) {
    for (const TokenFigures& engine : engines)
      labels_.push_back(format_labels({{model_label, engine.model}}) + (engine.labels.empty() ? "" : ",") +
                        engine.labels);
  }

  // `figure` takes an engine and returns an optional number or histogram.
  template <class Figure>
  void family(std::string_view name, std::string_view type, std::string_view help, Figure figure) {
    writer_.family(name, type, help);
    series("", figure);
  }
  void family(std::string_view name, std::string_view type, std::string_view help) { writer_.family(name, type, help); }
  template <class Figure>
  void series(std::string_view more_labels, Figure figure) {
    for (std::size_t i = 0; i < engines_.size(); ++i)
      if (const auto& value = figure(engines_[i]); value) put(fmt::format("{}{}", labels_[i], more_labels), *value);
  }

 private:
  void put(std::string_view labels, double value) { writer_.sample(labels, value); }
  void put(std::string_view labels, std::uint64_t value) { writer_.sample(labels, static_cast<double>(value)); }
  void put(std::string_view labels, const Histogram& value) { writer_.samples(labels, value); }

  ExpositionWriter& writer_;
  std::span<const TokenFigures> engines_;
  std::vector<std::string> labels_;
};

template <class Value>
auto of(std::optional<Value> TokenFigures::*member) {
  return [member](const TokenFigures& engine) -> const std::optional<Value>& { return engine.*member; };
}

std::optional<std::uint64_t> queue_depth(const TokenFigures& engine) {
  if (!engine.prefill_queue) return std::nullopt;
  return *engine.prefill_queue + engine.decode_queue.value_or(0);
}

void append_model_gauges(TokenWriter& models) {
  models.family("llm_kv_cache_usage_ratio", "gauge", "Share of the KV cache in use, from 0 to 1.",
                of(&TokenFigures::kv_usage));
  models.family("llm_queue_depth", "gauge", "Requests that wait to be scheduled.", queue_depth);
  models.family("llm_tokens_processed_total", "counter", "Tokens of prompts (input) and generated (output).");
  models.series(",token_type=\"input\"", of(&TokenFigures::tokens_in));
  models.series(",token_type=\"output\"", of(&TokenFigures::tokens_out));
}

}  // namespace

std::optional<double> filled_share(std::uint64_t running, std::uint64_t slots) {
  if (slots == 0) return std::nullopt;
  return std::min(1.0, static_cast<double>(running) / static_cast<double>(slots));
}

TokenFigures token_figures(const EngineScrape& now, const EngineScrape* before,
                           std::optional<double> kv_bytes_per_token) {
  TokenFigures figures;
  figures.model = now.model;
  figures.tokens_in = now.prompt_tokens_total;
  figures.tokens_out = now.generation_tokens_total;
  figures.active_sequences = now.running_requests;
  figures.decode_queue = now.preempted_requests;
  if (now.queued_requests)
    figures.prefill_queue = *now.queued_requests - std::min(*now.queued_requests, now.preempted_requests.value_or(0));
  figures.kv_bytes_used = bytes_of(now.kv_used_bytes, now.kv_used_tokens, kv_bytes_per_token);
  figures.kv_bytes_capacity = bytes_of(now.kv_capacity_bytes, now.kv_capacity_tokens, kv_bytes_per_token);
  figures.kv_usage = now.kv_usage;
  figures.evictions = now.evictions_total;
  figures.preemptions = now.preemptions_total;
  figures.prefix_queries = now.prefix_query_tokens_total;
  figures.prefix_hits = now.prefix_hit_tokens_total;
  figures.batch_merge_efficiency = now.batch_merge_efficiency;
  if (!figures.batch_merge_efficiency && now.running_requests)
    figures.batch_merge_efficiency = filled_share(*now.running_requests, now.max_sequences.value_or(0));
  if (before != nullptr) {
    figures.decode_step_p95_ms = p95_ms_between(before->itl_s, now.itl_s);
    figures.prefill_p95_ms = p95_ms_between(before->prefill_s, now.prefill_s);
    figures.ttft_mean_s = mean_between(before->ttft_s, now.ttft_s);
    figures.tpot_mean_s =
        now.tpot_s ? mean_between(before->tpot_s, now.tpot_s) : mean_between(before->itl_s, now.itl_s);
  }
  figures.ttft_s = now.ttft_s;
  figures.tpot_s = now.tpot_s ? now.tpot_s : now.itl_s;
  return figures;
}

void append_token_metrics(ExpositionWriter& writer, std::span<const TokenFigures> engines) {
  TokenWriter tokens{writer, engines, "model_name"};
  tokens.family("tokens_in_total", "counter", "Prompt tokens, computed or found in the cache.",
                of(&TokenFigures::tokens_in));
  tokens.family("tokens_out_total", "counter", "Tokens generated.", of(&TokenFigures::tokens_out));
  tokens.family("active_sequences", "gauge", "Sequences in the batches of the engine.",
                of(&TokenFigures::active_sequences));
  tokens.family("prefill_queue_len", "gauge", "Requests whose prompt waits to be computed.",
                of(&TokenFigures::prefill_queue));
  tokens.family("decode_queue_len", "gauge", "Preempted requests that wait to go on.", of(&TokenFigures::decode_queue));
  tokens.family("kv_cache_bytes_used", "gauge", "Bytes of KV blocks in use.", of(&TokenFigures::kv_bytes_used));
  tokens.family("kv_cache_bytes_capacity", "gauge", "Bytes of all KV blocks.", of(&TokenFigures::kv_bytes_capacity));
  tokens.family("kv_cache_evictions_total", "counter", "Cached KV blocks given up for others.",
                of(&TokenFigures::evictions));
  tokens.family("num_preemptions_total", "counter", "Preemptions for lack of KV blocks.",
                of(&TokenFigures::preemptions));
  tokens.family("prefix_cache_queries_total", "counter", "Prompt tokens that were looked up in the prefix cache.",
                of(&TokenFigures::prefix_queries));
  tokens.family("prefix_cache_hits_total", "counter", "Prompt tokens found in the prefix cache.",
                of(&TokenFigures::prefix_hits));
  tokens.family("batch_merge_efficiency", "gauge", "Share of the sequence slots filled when stepping, from 0 to 1.",
                of(&TokenFigures::batch_merge_efficiency));
  tokens.family("latency_p95_decode_step_ms", "gauge", "95th percentile of the time of a decode step, lately.",
                of(&TokenFigures::decode_step_p95_ms));
  tokens.family("latency_p95_prefill_ms", "gauge", "95th percentile of requests' prefill times, lately.",
                of(&TokenFigures::prefill_p95_ms));

  TokenWriter models{writer, engines, "model_id"};
  models.family("llm_ttft_seconds", "histogram", "Time to a request's first token.", of(&TokenFigures::ttft_s));
  models.family("llm_tpot_seconds", "histogram", "A request's mean gap between tokens.", of(&TokenFigures::tpot_s));
  append_model_gauges(models);
}

void append_token_gauges(ExpositionWriter& writer, std::span<const TokenFigures> engines) {
  TokenWriter models{writer, engines, "model_id"};
  models.family("llm_ttft_seconds", "gauge", "Mean time to first token, lately.", of(&TokenFigures::ttft_mean_s));
  models.family("llm_tpot_seconds", "gauge", "Mean time per output token, lately.", of(&TokenFigures::tpot_mean_s));
  append_model_gauges(models);
}

}  // namespace penstock::telemetry
