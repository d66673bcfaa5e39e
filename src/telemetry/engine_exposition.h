// The text that `penstock engine` exposes at /metrics: vLLM's names, so that tools for vLLM can read it, the token
// metrics (tokens_in_total, …), the adapter's metrics (llm_ttft_seconds, …) and penstock_engine_*.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "telemetry/engine_sample.h"
#include "telemetry/histogram.h"

namespace penstock::telemetry {

// Request outcomes, with vLLM's names.
struct FinishedRequests {
  std::uint64_t stop = 0, length = 0, abort = 0, error = 0;
};

// KV transfers between engines, by outcome, and those that have not ended, in either direction.
struct KvTransfers {
  std::uint64_t open = 0;
  std::uint64_t sent = 0, expired = 0, fetched = 0, failed = 0;
};

struct EngineFigures {
  std::string model;
  EngineSample sample;  // Gauges and counters; sampled_at, completed_total and iterations.*.busy are not exposed.
  std::uint32_t preempted_requests = 0;  // The part of sample.queued_requests that was preempted while decoding.
  std::uint32_t block_tokens = 0;
  std::uint64_t kv_bytes_per_token = 0;
  std::uint64_t prefix_query_tokens_total = 0;
  std::uint32_t sleep_level = 0;  // 0: awake; 1: its weights are in the memory of the host; 2: they are discarded.
  FinishedRequests finished;
  double decode_step_p95_ms = 0.0, prefill_p95_ms = 0.0;  // Over about the last minute.

  std::optional<KvTransfers> transfers;  // Empty if the engine does not transfer KV.

  Histogram ttft_s{ttft_bounds_s()};
  Histogram itl_s{itl_bounds_s()};   // Every gap between two tokens.
  Histogram tpot_s{itl_bounds_s()};  // Mean gap of each request.
  Histogram request_s{request_bounds_s()};
  Histogram queue_s{request_bounds_s()};
  Histogram prefill_s{request_bounds_s()};
  Histogram decode_s{request_bounds_s()};
  Histogram prompt_tokens{length_bounds()}, generation_tokens{length_bounds()};  // Of each request that completed.
  Histogram iteration_tokens{iteration_token_bounds()};  // Prompt tokens computed plus tokens generated.
};

// Text format 0.0.4; about 30 KiB.
[[nodiscard]] std::string engine_exposition(const EngineFigures& figures);

}  // namespace penstock::telemetry
