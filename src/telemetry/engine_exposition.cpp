#include "telemetry/engine_exposition.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "telemetry/exposition_writer.h"
#include "telemetry/token_metrics.h"

namespace penstock::telemetry {
namespace {

double real(std::uint64_t value) { return static_cast<double>(value); }
std::optional<double> real(const std::optional<std::uint64_t>& value) {
  return value ? std::optional(real(*value)) : std::nullopt;
}
std::optional<double> bytes(const std::optional<std::uint64_t>& tokens, std::uint64_t bytes_per_token) {
  return tokens ? std::optional(real(*tokens) * real(bytes_per_token)) : std::nullopt;
}

void write_vllm(ExpositionWriter& writer, const EngineFigures& figures, const std::string& labels) {
  const EngineSample& sample = figures.sample;
  writer.gauge("vllm:num_requests_running", "Requests in the batches of the engine.", labels, sample.running_requests);
  writer.gauge("vllm:num_requests_waiting", "Requests that wait to be scheduled, preempted ones included.", labels,
               sample.queued_requests);
  writer.gauge("vllm:kv_cache_usage_perc", "Share of the KV cache in use, from 0 to 1.", labels, sample.kv_usage());
  writer.family("vllm:cache_config_info", "gauge", "The KV cache's block size and number of blocks, as labels.");
  const std::uint64_t blocks =
      figures.block_tokens == 0 ? 0 : sample.kv_capacity_tokens.value_or(0) / figures.block_tokens;
  writer.sample(fmt::format("block_size=\"{}\",num_gpu_blocks=\"{}\",engine=\"0\"", figures.block_tokens, blocks), 1.0);
  writer.counter("vllm:prompt_tokens_total", "Prompt tokens, computed or found in the cache.", labels,
                 real(sample.prompt_tokens_total));
  writer.counter("vllm:generation_tokens_total", "Tokens generated.", labels, real(sample.generation_tokens_total));
  writer.counter("vllm:prefix_cache_queries_total", "Prompt tokens that were looked up in the prefix cache.", labels,
                 real(figures.prefix_query_tokens_total));
  writer.counter("vllm:prefix_cache_hits_total", "Prompt tokens found in the prefix cache.", labels,
                 real(sample.prefix_hit_tokens_total));
  writer.counter("vllm:num_preemptions_total", "Preemptions for lack of KV blocks.", labels,
                 real(sample.preemptions_total));
  writer.family("vllm:engine_sleep_state", "gauge", "Sleep state of the engine: the current state is 1.");
  const std::string_view states[] = {"awake", "weights_offloaded", "discard_all"};
  for (std::uint32_t level = 0; level < std::size(states); ++level)
    writer.sample(fmt::format("{},sleep_state=\"{}\"", labels, states[level]),
                  figures.sleep_level == level ? 1.0 : 0.0);
  writer.family("vllm:request_success_total", "counter", "Requests that ended, by reason.");
  const FinishedRequests& finished = figures.finished;
  const std::pair<std::string_view, std::uint64_t> reasons[] = {
      {"stop", finished.stop}, {"length", finished.length}, {"abort", finished.abort}, {"error", finished.error}};
  for (const auto& [reason, count] : reasons)
    writer.sample(fmt::format("{},finished_reason=\"{}\"", labels, reason), real(count));
  writer.histogram("vllm:iteration_tokens_total", "Tokens of an iteration, of prompts and generated.", labels,
                   figures.iteration_tokens);
  writer.histogram("vllm:request_prompt_tokens", "Prompt tokens of a completed request.", labels,
                   figures.prompt_tokens);
  writer.histogram("vllm:request_generation_tokens", "Generated tokens of a completed request.", labels,
                   figures.generation_tokens);
  writer.histogram("vllm:time_to_first_token_seconds", "Time to a request's first token.", labels, figures.ttft_s);
  writer.histogram("vllm:inter_token_latency_seconds", "Gap between two tokens of a request.", labels, figures.itl_s);
  writer.histogram("vllm:request_time_per_output_token_seconds", "A request's mean gap between tokens.", labels,
                   figures.tpot_s);
  writer.histogram("vllm:e2e_request_latency_seconds", "Time of a whole request.", labels, figures.request_s);
  writer.histogram("vllm:request_queue_time_seconds", "Time that a request waited to be scheduled.", labels,
                   figures.queue_s);
  writer.histogram("vllm:request_prefill_time_seconds", "Time of a request from scheduled to its first token.", labels,
                   figures.prefill_s);
  writer.histogram("vllm:request_decode_time_seconds", "Time of a request from its first token to its last.", labels,
                   figures.decode_s);
}

TokenFigures token_figures_of(const EngineFigures& figures) {
  const EngineSample& sample = figures.sample;
  const std::uint32_t preempted = std::min(figures.preempted_requests, sample.queued_requests);
  TokenFigures tokens;
  tokens.model = figures.model;
  tokens.tokens_in = sample.prompt_tokens_total;
  tokens.tokens_out = sample.generation_tokens_total;
  tokens.active_sequences = sample.running_requests;
  tokens.prefill_queue = sample.queued_requests - preempted;
  tokens.decode_queue = preempted;
  tokens.kv_bytes_used = bytes(sample.kv_used_tokens, figures.kv_bytes_per_token);
  tokens.kv_bytes_capacity = bytes(sample.kv_capacity_tokens, figures.kv_bytes_per_token);
  tokens.evictions = sample.evictions_total;
  tokens.preemptions = sample.preemptions_total;
  tokens.prefix_queries = figures.prefix_query_tokens_total;
  tokens.prefix_hits = sample.prefix_hit_tokens_total;
  tokens.batch_merge_efficiency = sample.batch_merge_efficiency;
  tokens.decode_step_p95_ms = figures.decode_step_p95_ms;
  tokens.prefill_p95_ms = figures.prefill_p95_ms;
  tokens.ttft_s = figures.ttft_s;
  tokens.tpot_s = figures.tpot_s;
  tokens.kv_usage = sample.kv_usage();
  return tokens;
}

void write_own(ExpositionWriter& writer, const EngineSample& sample, const std::string& labels) {
  writer.gauge("penstock_engine_queued_prefill_tokens", "Prompt tokens of waiting requests.", labels,
               real(sample.queued_prefill_tokens));
  writer.gauge("penstock_engine_inflight_prefill_tokens", "Prompt tokens of running requests still to be computed.",
               labels, real(sample.inflight_prefill_tokens));
  writer.gauge("penstock_engine_scheduled_kv_tokens", "Sum of the lengths of decoding sequences.", labels,
               real(sample.scheduled_kv_tokens));
  writer.gauge("penstock_engine_queued_kv_tokens", "Sum of the lengths of preempted sequences.", labels,
               real(sample.queued_kv_tokens));
  writer.gauge("penstock_engine_kv_used_tokens", "Distinct tokens in KV blocks in use.", labels,
               real(sample.kv_used_tokens));
  writer.gauge("penstock_engine_kv_capacity_tokens", "Tokens that all KV blocks hold.", labels,
               real(sample.kv_capacity_tokens));
  if (sample.oldest_queued_age)
    writer.gauge("penstock_engine_oldest_queued_seconds", "Age of the request that waits longest.", labels,
                 core::to_seconds(*sample.oldest_queued_age));
  writer.counter("penstock_engine_iterations_total", "Iterations.", labels, real(sample.iterations.steps()));
}

void write_transfers(ExpositionWriter& writer, const KvTransfers& transfers, const std::string& labels) {
  writer.family("penstock_engine_kv_transfers_total", "counter",
                "Moves of a prompt's KV between engines, by how they ended.");
  writer.add(real(transfers.sent), {{"result", "sent"}});
  writer.add(real(transfers.expired), {{"result", "expired"}});
  writer.add(real(transfers.fetched), {{"result", "fetched"}});
  writer.add(real(transfers.failed), {{"result", "failed"}});
  writer.gauge("penstock_engine_kv_transfers_open",
               "Moves of KV between engines that have not ended, in either direction.", labels, real(transfers.open));
}

}  // namespace

std::string engine_exposition(const EngineFigures& figures) {
  std::string text;
  text.reserve(32 * 1024);
  ExpositionWriter writer(text);
  const std::string labels = format_labels({{"model_name", figures.model}});
  write_vllm(writer, figures, labels + ",engine=\"0\"");
  const TokenFigures tokens = token_figures_of(figures);
  append_token_metrics(writer, {&tokens, 1});
  write_own(writer, figures.sample, labels);
  if (figures.transfers) write_transfers(writer, *figures.transfers, labels);
  return text;
}

}  // namespace penstock::telemetry
