// The state of one engine as the engine last reported it, by scrape or by messages.
#pragma once

#include <cstdint>

#include "core/iteration_totals.h"
#include "core/state_archive.h"
#include "core/time.h"

namespace penstock::telemetry {

// Gauges are instantaneous. Counters count from the replica's start.
struct EngineSample {
  core::Instant sampled_at;
  std::uint32_t queued_requests = 0;  // waiting requests, including preempted ones
  std::uint32_t running_requests = 0;
  std::uint64_t queued_prefill_tokens = 0;    // prompt tokens of waiting requests
  std::uint64_t inflight_prefill_tokens = 0;  // prompt tokens of running requests that are not computed yet
  std::uint64_t scheduled_kv_tokens = 0;      // Σ lengths of decoding sequences
  std::uint64_t queued_kv_tokens = 0;         // Σ lengths of preempted sequences that wait
  std::uint64_t kv_used_tokens = 0;  // distinct tokens in blocks in use; cached blocks without a user do not count
  std::uint64_t kv_capacity_tokens = 0;
  std::uint64_t prompt_tokens_total = 0;  // prompt tokens, computed or found in the cache
  std::uint64_t prefix_hit_tokens_total = 0;
  std::uint64_t generation_tokens_total = 0;
  std::uint64_t completed_total = 0;
  std::uint64_t preemptions_total = 0;
  std::uint64_t evictions_total = 0;    // cached blocks that were evicted
  core::Duration oldest_queued_age{};   // 0 when no request waits
  double batch_merge_efficiency = 0.0;  // mean share of sequence slots filled when stepping, since the start
  core::IterationTotals iterations;

  [[nodiscard]] double kv_usage() const {  // 0..1
    return kv_capacity_tokens == 0 ? 0.0
                                   : static_cast<double>(kv_used_tokens) / static_cast<double>(kv_capacity_tokens);
  }
  void archive(core::StateArchive& state) {
    state.values_of(sampled_at, queued_requests, running_requests, queued_prefill_tokens, inflight_prefill_tokens,
                    scheduled_kv_tokens, queued_kv_tokens, kv_used_tokens, kv_capacity_tokens, prompt_tokens_total,
                    prefix_hit_tokens_total, generation_tokens_total, completed_total, preemptions_total,
                    evictions_total, oldest_queued_age, batch_merge_efficiency, iterations);
  }
};

}  // namespace penstock::telemetry
