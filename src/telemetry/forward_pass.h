// Forward pass metrics (FPM): one message for each iteration of an engine, as NVIDIA Dynamo's instrumented schedulers send
// them over ZeroMQ (ai-dynamo/dynamo, components/src/dynamo/common/forward_pass_metrics.py, version 1).
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

// Of the requests that the iteration computed.
struct ScheduledRequests {
  std::uint32_t num_prefill_requests = 0;   // new ones, and those whose prompt goes on in chunks
  std::uint64_t sum_prefill_tokens = 0;     // prompt tokens computed by this iteration
  double var_prefill_length = 0.0;          // population variance of the whole prompts' lengths
  std::uint64_t sum_prefill_kv_tokens = 0;  // tokens of the same prompts that were in the cache before
  std::uint32_t num_decode_requests = 0;
  std::uint64_t sum_decode_kv_tokens = 0;  // Σ their lengths
  double var_decode_kv_tokens = 0.0;
};

// Of the requests that waited when the iteration ended.
struct QueuedRequests {
  std::uint32_t num_prefill_requests = 0;
  std::uint64_t sum_prefill_tokens = 0;  // their whole prompts; what the cache will spare is not known yet
  double var_prefill_length = 0.0;
  std::uint32_t num_decode_requests = 0;  // preempted
  std::uint64_t sum_decode_kv_tokens = 0;
  double var_decode_kv_tokens = 0.0;
};

struct ForwardPassMetrics {
  static constexpr std::uint32_t kVersion = 1;

  std::uint32_t version = kVersion;
  std::string worker_id;
  std::uint32_t dp_rank = 0;
  std::uint64_t counter_id = 0;  // one more for each message of this worker and rank
  // How long the iteration took, in seconds: from the end of the one before, or from its own scheduling if the engine was
  // idle. It is no time of day. 0 in a heartbeat, which comes when the engine turns idle and each second of idleness.
  double wall_time = 0.0;
  ScheduledRequests scheduled_requests;
  QueuedRequests queued_requests;
  // Keys that Penstock's engines add; others send none, and their readers ignore them.
  std::optional<std::uint64_t> kv_used_tokens;  // distinct tokens in blocks in use during the iteration
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

// A msgpack map with Dynamo's keys in Dynamo's order.
[[nodiscard]] std::string encode(const ForwardPassMetrics& metrics);
// Keys that are not known are skipped, and a newer version is read by the keys that it shares with this one. A key that is
// missing, of another type or beyond the limits above is an error that names it; `var_…`, `worker_id` and `dp_rank` may be
// missing. Input of any bytes.
[[nodiscard]] core::Result<ForwardPassMetrics> decode_forward_pass(std::string_view bytes);

// Adds up the messages of one worker and rank: its iterations since it started, and the last state of its queue.
//
// What the messages cannot tell apart: which prompts ended in an iteration, so their first tokens do not count as decoded
// sequences; how the tokens of an iteration were shared out among its prompts, so the attention pairs are those of equal
// shares; blocks in use that nobody scheduled, or that sequences share: without kv_used_tokens an iteration's scheduled
// tokens count instead. The work of a message that was lost is not counted, neither its time.
class ForwardPassTotals {
 public:
  // Messages come in the order of one connection. A repeated counter is ignored; a lower one means that the engine began
  // anew, and so do the totals.
  void add(const ForwardPassMetrics& message, core::Instant received_at);

  [[nodiscard]] bool heard() const { return last_.has_value(); }
  [[nodiscard]] core::Instant heard_at() const { return heard_at_; }       // of the last message
  [[nodiscard]] const ForwardPassMetrics& last() const { return *last_; }  // heard()
  [[nodiscard]] const core::IterationTotals& iterations() const { return iterations_; }
  [[nodiscard]] std::uint64_t messages() const { return messages_; }  // heartbeats included, repeated ones not
  [[nodiscard]] std::uint64_t lost() const { return lost_; }          // gaps in counter_id, over restarts
  [[nodiscard]] std::uint64_t restarts() const { return restarts_; }

 private:
  std::optional<ForwardPassMetrics> last_;
  core::Instant heard_at_;
  core::IterationTotals iterations_;
  std::uint64_t messages_ = 0, lost_ = 0, restarts_ = 0;
};

// Puts what the messages of all ranks of one replica say over a sample, from a scrape or empty: the queue, the running
// requests and their tokens, the KV cache where the messages tell it, the iterations. The rest of the sample stays. It is
// then as old as its older half: one that was never taken (sampled_at == core::kStart) does not count. Ranks that were not
// heard of do not count; with none, nothing is changed and the answer is false.
bool apply_forward_pass(std::span<const ForwardPassTotals> ranks, EngineSample& sample);

}  // namespace penstock::telemetry
