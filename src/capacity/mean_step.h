// The time of a step with average, possibly fractional counts.
#pragma once

#include "engine/step_time.h"

namespace penstock::capacity {

// The counts of engine::StepShape averaged over many steps. All values are finite and not negative.
struct MeanShape {
  double prefill_requests = 0.0;
  double prefill_new_tokens = 0.0;
  double prefill_context_tokens = 0.0;
  double prefill_attention_pairs = 0.0;
  double decode_sequences = 0.0;
  double decode_context_tokens = 0.0;
  double active_kv_tokens = 0.0;
  double total_kv_tokens = 1.0;
};

// Interpolates between whole numbers of sequences, so that the time is continuous; tokens are rounded. If there are
// prompt tokens, at least one counts. Two calls of the model, or one for whole sequences.
[[nodiscard]] double mean_step_ms(const engine::StepTimeModel& model, const MeanShape& shape);

}  // namespace penstock::capacity
