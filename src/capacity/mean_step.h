// The time of a step whose counts are means, which need not be whole.
#pragma once

#include "engine/step_time.h"

namespace penstock::capacity {

// What engine::StepShape counts, on average over many steps. Everything is ≥ 0 and finite.
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

// Between whole numbers of sequences the time is interpolated, so that it does not jump; tokens are rounded. At least
// one prompt token counts where there are any. Two calls of the model, or one where the sequences are whole.
[[nodiscard]] double mean_step_ms(const engine::StepTimeModel& model, const MeanShape& shape);

}  // namespace penstock::capacity
