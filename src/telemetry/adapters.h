// Reads the /metrics of an engine of any kind: vLLM, SGLang, TensorRT-LLM's own server, Triton, Text Generation
// Inference, Dynamo's front end, llama.cpp, Penstock.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/time.h"
#include "telemetry/engine_sample.h"
#include "telemetry/exposition.h"
#include "telemetry/histogram.h"

namespace penstock::telemetry {

enum class EngineKind : std::uint8_t {
  kUnknown,
  kVllm,
  kSglang,
  kTensorRtLlm,
  kTriton,
  kTgi,
  kDynamo,
  kLlamaCpp,
  kLlmdEpp,
  kPenstock
};
[[nodiscard]] const char* to_string(EngineKind kind);  // Returns "unknown", "vllm", "sglang", "tensorrt_llm", ….

// Missing is not zero: figures that a server does not expose are empty. If several engines or ranks share one /metrics,
// their figures are added up.
struct EngineScrape {
  EngineKind kind = EngineKind::kUnknown;
  std::string model;  // Model of the first series that names one.

  std::optional<bool> asleep;  // All engines are in sleep mode.

  std::optional<std::uint64_t> queued_requests, running_requests;
  std::optional<std::uint64_t> max_sequences;       // Most requests that run at once; only Triton exposes it.
  std::optional<std::uint64_t> preempted_requests;  // Queued requests that were preempted while they decoded.
  // Queued requests that wait for something else than room: a KV transfer, an adapter.
  std::optional<std::uint64_t> deferred_requests;
  std::optional<std::uint64_t> open_transfers;  // KV transfers between engines that have not ended.
  std::optional<double> kv_usage;               // Range 0 to 1, over all ranks.
  std::optional<std::uint64_t> kv_used_tokens, kv_capacity_tokens;
  std::optional<std::uint64_t> kv_used_bytes, kv_capacity_bytes;  // Only Penstock's engines expose these.
  std::optional<std::uint32_t> block_tokens;

  std::optional<std::uint64_t> prompt_tokens_total, generation_tokens_total;
  std::optional<std::uint64_t> prefix_query_tokens_total, prefix_hit_tokens_total;
  std::optional<std::uint64_t> completed_total;  // Succeeded requests: stopped, or at their maximum length.
  std::optional<std::uint64_t> failed_total;     // Aborted requests and errors.
  std::optional<std::uint64_t> preemptions_total, evictions_total;
  std::optional<std::uint64_t> iterations_total;

  std::optional<Histogram> ttft_s, itl_s, request_s, queue_s;  // Seconds.
  std::optional<Histogram> tpot_s;     // Mean gap of each request, whereas itl_s contains every gap.
  std::optional<Histogram> prefill_s;  // Time from scheduling to the first token.
  std::optional<Histogram> iteration_tokens;
  std::optional<Histogram> prompt_length, output_length;  // Tokens of ended requests.

  // Only Penstock's engines expose these.
  std::optional<std::uint64_t> queued_prefill_tokens, inflight_prefill_tokens, scheduled_kv_tokens, queued_kv_tokens;
  std::optional<double> oldest_queued_s, batch_merge_efficiency;

  // Engines do not expose these; queries of Prometheus may. Range 0 to 1.
  std::optional<double> gpu_utilisation, gpu_memory_usage, gpu_memory_bandwidth;
};

// Detects the server by the names of its series; kUnknown if none is known.
[[nodiscard]] EngineKind detect_engine(const Exposition& exposition);

// Impossible values (NaN, negative counters, shares above 1) count as missing. O(samples).
[[nodiscard]] EngineScrape read_scrape(const Exposition& exposition);

// Returns nothing unless the scrape has the numbers of queued and running requests. Other missing figures are empty in
// the sample, too.
[[nodiscard]] std::optional<EngineSample> to_sample(const EngineScrape& scrape, core::Instant sampled_at);

}  // namespace penstock::telemetry
