#include "signals/telemetry/engine_exposition.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string_view>

#include "signals/telemetry/exposition.h"

namespace penstock::signals {
namespace {

class Writer {
 public:
  explicit Writer(std::string& text) : text_(text) {}

  void family(std::string_view name, std::string_view type, std::string_view help) {
    name_ = name;
    append("# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
  }
  void sample(std::string_view labels, double value) {
    append("{}{{{}}} ", name_, labels);
    number(value);
  }
  void gauge(std::string_view name, std::string_view help, std::string_view labels, double value) {
    family(name, "gauge", help);
    sample(labels, value);
  }
  void counter(std::string_view name, std::string_view help, std::string_view labels, double value) {
    family(name, "counter", help);
    sample(labels, value);
  }
  void histogram(std::string_view name, std::string_view help, std::string_view labels, const Histogram& values) {
    family(name, "histogram", help);
    std::uint64_t at_most = 0;
    for (std::size_t i = 0; i < values.bounds.size(); ++i) {
      at_most += values.counts[i];
      append("{}_bucket{{{},le=\"{}\"}} {}\n", name, labels, values.bounds[i], at_most);
    }
    const std::uint64_t count = values.count();
    append("{}_bucket{{{},le=\"+Inf\"}} {}\n{}_sum{{{}}} ", name, labels, count, name, labels);
    number(values.sum);
    append("{}_count{{{}}} {}\n", name, labels, count);
  }

 private:
  template <class... Args>
  void append(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(text_), format, std::forward<Args>(args)...);
  }
  void number(double value) {
    if (std::isfinite(value))
      append("{}\n", value);
    else
      append("{}\n", std::isnan(value) ? "NaN" : value > 0.0 ? "+Inf" : "-Inf");
  }

  std::string& text_;
  std::string_view name_;
};

double real(std::uint64_t value) { return static_cast<double>(value); }

void write_vllm(Writer& writer, const EngineFigures& figures, const std::string& labels) {
  const EngineSample& sample = figures.sample;
  writer.gauge("vllm:num_requests_running", "Requests in the batches of the engine.", labels, sample.running_requests);
  writer.gauge("vllm:num_requests_waiting", "Requests that wait to be scheduled, preempted ones included.", labels,
               sample.queued_requests);
  writer.gauge("vllm:kv_cache_usage_perc", "Share of the KV cache in use, from 0 to 1.", labels, sample.kv_usage());
  writer.family("vllm:cache_config_info", "gauge", "The KV cache's block size and number of blocks, as labels.");
  const std::uint64_t blocks = figures.block_tokens == 0 ? 0 : sample.kv_capacity_tokens / figures.block_tokens;
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
  writer.family("vllm:request_success_total", "counter", "Requests that ended, by reason.");
  const FinishedRequests& finished = figures.finished;
  const std::pair<std::string_view, std::uint64_t> reasons[] = {
      {"stop", finished.stop}, {"length", finished.length}, {"abort", finished.abort}, {"error", finished.error}};
  for (const auto& [reason, count] : reasons)
    writer.sample(fmt::format("{},finished_reason=\"{}\"", labels, reason), real(count));
  writer.histogram("vllm:iteration_tokens_total", "Tokens of an iteration, of prompts and generated.", labels,
                   figures.iteration_tokens);
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

void write_token_metrics(Writer& writer, const EngineFigures& figures, const std::string& labels) {
  const EngineSample& sample = figures.sample;
  const std::uint32_t preempted = std::min(figures.preempted_requests, sample.queued_requests);
  writer.counter("tokens_in_total", "Prompt tokens, computed or found in the cache.", labels,
                 real(sample.prompt_tokens_total));
  writer.counter("tokens_out_total", "Tokens generated.", labels, real(sample.generation_tokens_total));
  writer.gauge("active_sequences", "Sequences in the batches of the engine.", labels, sample.running_requests);
  writer.gauge("prefill_queue_len", "Requests whose prompt waits to be computed.", labels,
               sample.queued_requests - preempted);
  writer.gauge("decode_queue_len", "Preempted requests that wait to go on.", labels, preempted);
  writer.gauge("kv_cache_bytes_used", "Bytes of KV blocks in use.", labels,
               real(sample.kv_used_tokens) * real(figures.kv_bytes_per_token));
  writer.gauge("kv_cache_bytes_capacity", "Bytes of all KV blocks.", labels,
               real(sample.kv_capacity_tokens) * real(figures.kv_bytes_per_token));
  writer.counter("kv_cache_evictions_total", "Cached KV blocks given up for others.", labels,
                 real(sample.evictions_total));
  writer.gauge("batch_merge_efficiency", "Mean share of the sequence slots filled when stepping, from 0 to 1.", labels,
               sample.batch_merge_efficiency);
  writer.gauge("latency_p95_decode_step_ms", "95th percentile of iterations that only decode, lately.", labels,
               figures.decode_step_p95_ms);
  writer.gauge("latency_p95_prefill_ms", "95th percentile of requests' prefill times, lately.", labels,
               figures.prefill_p95_ms);
}

void write_model_metrics(Writer& writer, const EngineFigures& figures, const std::string& labels) {
  const EngineSample& sample = figures.sample;
  writer.histogram("llm_ttft_seconds", "Time to a request's first token.", labels, figures.ttft_s);
  writer.histogram("llm_tpot_seconds", "A request's mean gap between tokens.", labels, figures.tpot_s);
  writer.gauge("llm_kv_cache_usage_ratio", "Share of the KV cache in use, from 0 to 1.", labels, sample.kv_usage());
  writer.gauge("llm_queue_depth", "Requests that wait to be scheduled.", labels, sample.queued_requests);
  writer.family("llm_tokens_processed_total", "counter", "Tokens of prompts (input) and generated (output).");
  writer.sample(labels + ",token_type=\"input\"", real(sample.prompt_tokens_total));
  writer.sample(labels + ",token_type=\"output\"", real(sample.generation_tokens_total));
}

void write_own(Writer& writer, const EngineSample& sample, const std::string& labels) {
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
  writer.gauge("penstock_engine_oldest_queued_seconds", "Age of the request that waits longest.", labels,
               core::to_seconds(sample.oldest_queued_age));
  writer.counter("penstock_engine_iterations_total", "Iterations.", labels, real(sample.iterations.steps()));
}

}  // namespace

std::string engine_exposition(const EngineFigures& figures) {
  std::string text;
  text.reserve(32 * 1024);
  Writer writer(text);
  const std::string model = escape_label(figures.model);
  const std::string labels = fmt::format("model_name=\"{}\"", model);
  write_vllm(writer, figures, labels + ",engine=\"0\"");
  write_token_metrics(writer, figures, labels);
  write_model_metrics(writer, figures, fmt::format("model_id=\"{}\"", model));
  write_own(writer, figures.sample, labels);
  return text;
}

}  // namespace penstock::signals
