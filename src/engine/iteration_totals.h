// What an engine's iterations have computed since it started, summed: what one message per iteration would add up to.
#pragma once

#include <cstdint>

#include "core/time.h"
#include "engine/step_time.h"

namespace penstock::engine {

// Sums over iterations of one kind.
struct IterationSums {
  std::uint64_t steps = 0;
  core::Duration busy{};               // the time they took
  std::uint64_t decode_sequences = 0;  // as in StepShape, those included whose prompt ends in the step
  std::uint64_t decode_context_tokens = 0;
  std::uint64_t active_kv_tokens = 0;
};

struct IterationTotals {
  IterationSums prefill;  // iterations that compute prompt tokens, whatever they decode beside them
  IterationSums decode;   // iterations that only decode
  std::uint64_t prefill_requests = 0;
  std::uint64_t prefill_new_tokens = 0;
  double prefill_new_tokens_squared = 0.0;  // Σ over steps of the square of a step's new tokens
  std::uint64_t prefill_context_tokens = 0;
  double prefill_attention_pairs = 0.0;
};

// Adds a run of `steps` (> 0) iterations that took `time` together and began with `shape`. If there is more than one,
// they only decode, every sequence grows by one token a step and no block is gained.
inline void add_run(IterationTotals& totals, const StepShape& shape, std::uint64_t steps, core::Duration time) {
  IterationSums& kind = shape.prefill_requests > 0 ? totals.prefill : totals.decode;
  const std::uint64_t sequences = shape.decode_sequences;
  kind.steps += steps;
  kind.busy += time;
  kind.decode_sequences += sequences * steps;
  kind.decode_context_tokens += shape.decode_context_tokens * steps + sequences * (steps * (steps - 1) / 2);
  kind.active_kv_tokens += shape.active_kv_tokens * steps;
  if (shape.prefill_requests == 0) return;
  const auto fresh = static_cast<double>(shape.prefill_new_tokens);
  totals.prefill_requests += shape.prefill_requests;
  totals.prefill_new_tokens += shape.prefill_new_tokens;
  totals.prefill_new_tokens_squared += fresh * fresh;
  totals.prefill_context_tokens += shape.prefill_context_tokens;
  totals.prefill_attention_pairs += shape.prefill_attention_pairs;
}

}  // namespace penstock::engine
