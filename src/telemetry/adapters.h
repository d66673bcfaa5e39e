// What a scrape of an engine's /metrics says, whoever made the engine: vLLM, SGLang, TensorRT-LLM's own server, Triton,
// Text Generation Inference, Dynamo's front end, Penstock.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/time.h"
#include "telemetry/engine_sample.h"
#include "telemetry/exposition.h"
#include "telemetry/histogram.h"

namespace penstock::telemetry {

enum class EngineKind : std::uint8_t { kUnknown, kVllm, kSglang, kTensorRtLlm, kTriton, kTgi, kDynamo, kPenstock };
[[nodiscard]] const char* to_string(EngineKind kind);  // "unknown", "vllm", "sglang", "tensorrt_llm", …

// Missing is not zero: what a server does not expose is none. Servers with several engines or ranks behind one /metrics
// are added up.
struct EngineScrape {
  EngineKind kind = EngineKind::kUnknown;
  std::string model;  // of the first series that names one

  std::optional<std::uint64_t> queued_requests, running_requests;
  std::optional<std::uint64_t> preempted_requests;  // of the queued ones: those that decoded before
  std::optional<double> kv_usage;                   // 0..1, of all ranks together
  std::optional<std::uint64_t> kv_used_tokens, kv_capacity_tokens;
  std::optional<std::uint32_t> block_tokens;

  std::optional<std::uint64_t> prompt_tokens_total, generation_tokens_total;
  std::optional<std::uint64_t> prefix_query_tokens_total, prefix_hit_tokens_total;
  std::optional<std::uint64_t> completed_total;  // ended well: stopped, or at their length
  std::optional<std::uint64_t> failed_total;     // ended otherwise: aborted, errors
  std::optional<std::uint64_t> preemptions_total, evictions_total;
  std::optional<std::uint64_t> iterations_total;

  std::optional<Histogram> ttft_s, itl_s, request_s, queue_s;  // seconds
  std::optional<Histogram> tpot_s;                             // each request's mean gap; itl_s has each gap
  std::optional<Histogram> prefill_s;                          // from scheduled to the first token
  std::optional<Histogram> iteration_tokens;

  // Penstock's engines only.
  std::optional<std::uint64_t> queued_prefill_tokens, inflight_prefill_tokens, scheduled_kv_tokens, queued_kv_tokens;
  std::optional<double> oldest_queued_s, batch_merge_efficiency;
};

// By the names of the series; kUnknown if none is known.
[[nodiscard]] EngineKind detect_engine(const Exposition& exposition);

// Values that cannot be (NaN, negative counters, shares beyond 1) count as missing. O(samples).
[[nodiscard]] EngineScrape read_scrape(const Exposition& exposition);

// None unless the scrape says how many requests wait and run. What else it does not say is 0 in the sample, as there is no
// other word for it: kv_capacity_tokens == 0 then means that the KV cache is unknown.
[[nodiscard]] std::optional<EngineSample> to_sample(const EngineScrape& scrape, core::Instant sampled_at);

}  // namespace penstock::telemetry
