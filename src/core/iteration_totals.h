// Sums over an engine's iterations: an engine model counts them, engines report them, and planners learn step times
// from them.
#pragma once

#include <cstdint>

#include "core/state_archive.h"
#include "core/time.h"

namespace penstock::core {

// Sums over iterations of one kind.
struct IterationSums {
  std::uint64_t steps = 0;
  Duration busy{};                          // wall time that the iterations took
  std::uint64_t decode_sequences = 0;       // sequences that got a token, including those whose prompt ended
  std::uint64_t decode_context_tokens = 0;  // Σ lengths of these sequences
  std::uint64_t active_kv_tokens = 0;       // Σ over iterations of the distinct tokens in blocks in use
  void archive(core::StateArchive& state) {
    state.values_of(steps, busy, decode_sequences, decode_context_tokens, active_kv_tokens);
  }
};

// One iteration of an engine.
struct Iteration {
  Duration time{};
  std::uint32_t prefill_requests = 0;
  std::uint64_t prefill_new_tokens = 0;
  std::uint64_t prefill_context_tokens = 0;  // Tokens of the same prompts that were in the cache before.
  std::uint32_t decode_sequences = 0;        // Sequences that had their first token before.
  std::uint64_t decode_context_tokens = 0;   // Σ of their lengths.
};

// The totals of one engine since it started. They are all zero if the engine reports no iterations.
struct IterationTotals {
  IterationSums prefill;  // iterations that computed prompt tokens, whether or not they also decoded
  IterationSums decode;   // iterations that only decoded
  std::uint64_t prefill_requests = 0;
  std::uint64_t prefill_new_tokens = 0;
  double prefill_new_tokens_squared = 0.0;   // Σ over iterations of the square of the iteration's new tokens
  std::uint64_t prefill_context_tokens = 0;  // Σ tokens of the same prompts that were in the cache before
  double prefill_attention_pairs = 0.0;      // Σ new·(before + (new + 1)/2)

  [[nodiscard]] std::uint64_t steps() const { return prefill.steps + decode.steps; }
  [[nodiscard]] Duration busy() const { return prefill.busy + decode.busy; }
  void archive(core::StateArchive& state) {
    state.values_of(prefill, decode, prefill_requests, prefill_new_tokens, prefill_new_tokens_squared,
                    prefill_context_tokens, prefill_attention_pairs);
  }
};

}  // namespace penstock::core
