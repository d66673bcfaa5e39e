// Adds the iterations of an engine model to its totals, as one message per iteration would add up.
#pragma once

#include <cstdint>

#include "core/iteration_totals.h"
#include "core/time.h"
#include "engine/step_time.h"

namespace penstock::engine {

using core::Iteration;
using core::IterationSums;
using core::IterationTotals;

// Adds a run of `steps` (> 0) iterations that took `time` together and began with `shape`. Several iterations in one
// run only decode: every sequence grows by one token a step, and no block is gained.
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
