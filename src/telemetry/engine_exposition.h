// What `penstock engine` shows at /metrics: vLLM's names, so that what reads vLLM reads it; the token metrics
// (tokens_in_total, …); the adapter's (llm_ttft_seconds, …); and penstock_engine_*, what only Penstock tells.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "telemetry/engine_sample.h"
#include "telemetry/histogram.h"

namespace penstock::telemetry {

// How requests ended, by vLLM's words.
struct FinishedRequests {
  std::uint64_t stop = 0, length = 0, abort = 0, error = 0;
};

// Moves of a prompt's KV between engines, by how they ended.
struct KvTransfers {
  std::uint64_t sent = 0, expired = 0, fetched = 0, failed = 0;
};

struct EngineFigures {
  std::string model;
  EngineSample sample;  // gauges and counters; sampled_at, completed_total and iterations.*.busy are not shown
  std::uint32_t preempted_requests = 0;  // of sample.queued_requests: those that decoded before
  std::uint32_t block_tokens = 0;
  std::uint64_t kv_bytes_per_token = 0;
  std::uint64_t prefix_query_tokens_total = 0;
  FinishedRequests finished;
  double decode_step_p95_ms = 0.0, prefill_p95_ms = 0.0;  // of the last minute or so

  std::optional<KvTransfers> transfers;  // none: the engine does not move KV

  Histogram ttft_s{ttft_bounds_s()};
  Histogram itl_s{itl_bounds_s()};   // each gap between two tokens
  Histogram tpot_s{itl_bounds_s()};  // each request's mean gap
  Histogram request_s{request_bounds_s()};
  Histogram queue_s{request_bounds_s()};
  Histogram prefill_s{request_bounds_s()};
  Histogram decode_s{request_bounds_s()};
  Histogram iteration_tokens{iteration_token_bounds()};  // prompt tokens computed and tokens generated
};

// Text format 0.0.4. About 27 KiB.
[[nodiscard]] std::string engine_exposition(const EngineFigures& figures);

}  // namespace penstock::telemetry
