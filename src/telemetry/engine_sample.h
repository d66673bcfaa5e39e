// The state of one engine as the engine last reported it, by scrape or by messages.
#pragma once

#include <cstdint>
#include <optional>

#include "core/iteration_totals.h"
#include "core/state_archive.h"
#include "core/time.h"

namespace penstock::telemetry {

// A histogram without its buckets. Both values count from the engine's start.
struct HistogramTotals {
  std::uint64_t count = 0;
  double sum = 0.0;
  void archive(core::StateArchive& state) { state.values_of(count, sum); }
};

// Gauges are instantaneous. Counters count from the replica's start. A figure that the engine does not report is empty;
// it is not zero.
struct EngineSample {
  core::Instant sampled_at;
  std::uint32_t queued_requests = 0;  // waiting requests, including preempted ones
  std::uint32_t running_requests = 0;
  std::optional<std::uint32_t>
      deferred_requests;  // queued requests that wait for a KV transfer or an adapter, not for room
  // KV transfers between engines that have not ended; not saved, because only drains read it
  std::optional<std::uint32_t> open_transfers;
  std::optional<std::uint64_t> queued_prefill_tokens;    // prompt tokens of waiting requests
  std::optional<std::uint64_t> inflight_prefill_tokens;  // prompt tokens of running requests that are not computed yet
  std::optional<std::uint64_t> scheduled_kv_tokens;      // Σ lengths of decoding sequences
  std::optional<std::uint64_t> queued_kv_tokens;         // Σ lengths of preempted sequences that wait
  // Distinct tokens in blocks in use; cached blocks without a user do not count.
  std::optional<std::uint64_t> kv_used_tokens;
  std::optional<std::uint64_t> kv_capacity_tokens;
  std::optional<double> kv_share;                    // share of the KV cache in use, of engines that report no tokens
  std::optional<std::uint64_t> prompt_tokens_total;  // prompt tokens, computed or found in the cache
  std::optional<std::uint64_t> prefix_hit_tokens_total;
  std::optional<std::uint64_t> generation_tokens_total;
  std::optional<std::uint64_t> completed_total;
  std::optional<std::uint64_t> preemptions_total;
  std::optional<std::uint64_t> evictions_total;     // cached blocks that were evicted
  std::optional<core::Duration> oldest_queued_age;  // 0 when no request waits
  std::optional<double> batch_merge_efficiency;  // mean share of sequence slots filled when stepping, since the start
  core::IterationTotals iterations;
  std::optional<core::Iteration> last_iteration;  // not saved: policies read that of the latest sample only
  // Histograms in seconds: gaps between tokens, times from scheduling to the first token, times to the first token.
  std::optional<HistogramTotals> itl_s, prefill_s, ttft_s;
  std::optional<std::uint64_t> iterations_total;  // engines that report `iterations` need not report it
  // From 0 to 1: mean utilisation of its GPUs, memory in use of the GPU with the fullest one, use of their bandwidth.
  std::optional<double> gpu_utilisation, gpu_memory_usage, gpu_memory_bandwidth;
  // Time until the KV cache and the fullest GPU memory are full by the trend of the last minute; empty without growth.
  std::optional<core::Duration> kv_full_in, gpu_memory_full_in;

  // From 0 to 1; empty if the engine reports neither a share nor tokens.
  [[nodiscard]] std::optional<double> kv_usage() const {
    if (!kv_used_tokens || !kv_capacity_tokens || *kv_capacity_tokens == 0) return kv_share;
    return static_cast<double>(*kv_used_tokens) / static_cast<double>(*kv_capacity_tokens);
  }
  void archive(core::StateArchive& state) {
    state.values_of(sampled_at, queued_requests, running_requests, deferred_requests, queued_prefill_tokens,
                    inflight_prefill_tokens, scheduled_kv_tokens, queued_kv_tokens, kv_used_tokens, kv_capacity_tokens,
                    kv_share, prompt_tokens_total, prefix_hit_tokens_total, generation_tokens_total, completed_total,
                    preemptions_total, evictions_total, oldest_queued_age, batch_merge_efficiency, iterations, itl_s,
                    prefill_s, ttft_s, iterations_total, gpu_utilisation, gpu_memory_usage, gpu_memory_bandwidth,
                    kv_full_in, gpu_memory_full_in);
  }
};

}  // namespace penstock::telemetry
