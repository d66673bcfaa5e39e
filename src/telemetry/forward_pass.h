// Forward pass metrics (FPM): one message for each iteration of an engine, as NVIDIA Dynamo's instrumented schedulers
// send them over ZeroMQ (ai-dynamo/dynamo, components/src/dynamo/common/forward_pass_metrics.py, version 1).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "core/iteration_totals.h"
#include "core/result.h"
#include "core/time.h"
#include "telemetry/engine_sample.h"

namespace penstock::telemetry {

// Requests that the iteration computed.
struct ScheduledRequests {
  std::uint32_t num_prefill_requests = 0;   // New requests, and requests whose prompt continues in chunks.
  std::uint64_t sum_prefill_tokens = 0;     // Prompt tokens computed by this iteration.
  double var_prefill_length = 0.0;          // Population variance of the complete prompts' lengths.
  std::uint64_t sum_prefill_kv_tokens = 0;  // Tokens of the same prompts that were already in the cache.
  std::uint32_t num_decode_requests = 0;
  std::uint64_t sum_decode_kv_tokens = 0;  // Sum of their lengths.
  double var_decode_kv_tokens = 0.0;
};

// Requests that waited when the iteration ended.
struct QueuedRequests {
  std::uint32_t num_prefill_requests = 0;
  std::uint64_t sum_prefill_tokens = 0;  // Complete prompts, because the prefix hits are not known yet.
  double var_prefill_length = 0.0;
  std::uint32_t num_decode_requests = 0;  // Preempted requests.
  std::uint64_t sum_decode_kv_tokens = 0;
  double var_decode_kv_tokens = 0.0;
};

struct ForwardPassMetrics {
  static constexpr std::uint32_t kVersion = 1;

  std::uint32_t version = kVersion;
  std::string worker_id;
  std::uint32_t dp_rank = 0;
  std::uint64_t counter_id = 0;  // Increases by one with each message of this worker and rank.
  // Duration of the iteration in seconds: from the end of the previous one, or from its own scheduling if the engine
  // was idle. 0 in a heartbeat, which is sent when the engine becomes idle and every second while it is idle.
  double wall_time = 0.0;
  ScheduledRequests scheduled_requests;
  QueuedRequests queued_requests;
  // Keys that only Penstock's engines send; other readers ignore them.
  std::optional<std::uint64_t> kv_used_tokens;  // Distinct tokens in blocks in use during the iteration.
  std::optional<std::uint64_t> kv_capacity_tokens;

  [[nodiscard]] bool is_heartbeat() const {
    return wall_time == 0.0 && scheduled_requests.num_prefill_requests == 0 &&
           scheduled_requests.num_decode_requests == 0;
  }
};

inline constexpr std::size_t kForwardPassBytesMax = 64 * 1024;
inline constexpr std::uint32_t kForwardPassRequestsMax = 10'000'000;
inline constexpr std::uint64_t kForwardPassTokensMax = std::uint64_t{1} << 48;
inline constexpr double kForwardPassSecondsMax = 86'400.0;

// Writes a msgpack map with Dynamo's keys in Dynamo's order.
[[nodiscard]] std::string encode(const ForwardPassMetrics& metrics);
// Unknown keys are skipped. Another version is an error, and so is a key that is missing, of another type or above the
// limits; the error names the key. `var_…`, `worker_id` and `dp_rank` are optional. Accepts any bytes.
[[nodiscard]] core::Result<ForwardPassMetrics> decode_forward_pass(std::string_view bytes);

// Adds up the messages of one worker and rank: its iterations since it started, and the latest state of its queue.
//
// The messages do not show some details. It is unknown which prompts ended in an iteration, so their first tokens do
// not count as decoded sequences. It is unknown how an iteration divided its tokens among its prompts, so attention
// pairs assume equal shares. Blocks in use without a scheduled request, or shared by sequences, are invisible: without
// kv_used_tokens an iteration's scheduled tokens count instead. Lost messages add neither work nor time.
class ForwardPassTotals {
 public:
  // Messages must be in the order of one connection. A repeated counter is ignored; a lower one means that the engine
  // restarted, and the totals start again.
  void add(const ForwardPassMetrics& message, core::Instant received_at);

  [[nodiscard]] bool has_messages() const { return last_.has_value(); }
  [[nodiscard]] core::Instant received_at() const { return received_at_; }  // Time of the last message.
  [[nodiscard]] const ForwardPassMetrics& last() const { return *last_; }   // Requires has_messages().
  [[nodiscard]] const core::IterationTotals& iterations() const { return iterations_; }
  [[nodiscard]] const std::optional<core::Iteration>& last_iteration() const { return last_iteration_; }
  [[nodiscard]] std::uint64_t messages() const {
    return messages_;
  }                                                           // Includes heartbeats, excludes repeated messages.
  [[nodiscard]] std::uint64_t lost() const { return lost_; }  // Gaps in counter_id, including restarts.
  [[nodiscard]] std::uint64_t restarts() const { return restarts_; }

 private:
  std::optional<ForwardPassMetrics> last_;
  core::Instant received_at_;
  core::IterationTotals iterations_;
  std::optional<core::Iteration> last_iteration_;
  std::uint64_t messages_ = 0, lost_ = 0, restarts_ = 0;
};

// Overwrites a sample, which comes from a scrape or is empty, with the messages of all ranks of one replica: queue,
// running requests and their tokens, iterations, and the KV cache if the messages contain it. Other fields stay. The
// sample is then as old as the older of both sources; a sample that was never taken (sampled_at == core::kStart) does
// not count. Ranks without messages are skipped; if all are, nothing changes and the result is false.
bool apply_forward_pass(std::span<const ForwardPassTotals> ranks, EngineSample& sample);

}  // namespace penstock::telemetry
