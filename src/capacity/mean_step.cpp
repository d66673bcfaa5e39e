#include "capacity/mean_step.h"

#include <algorithm>
#include <cmath>

#include "core/time.h"

namespace penstock::capacity {
namespace {

std::uint64_t whole(double count) { return static_cast<std::uint64_t>(std::min(count, 1e15) + 0.5); }

double step_ms(const engine::StepTimeModel& model, const MeanShape& mean, double sequences) {
  engine::StepShape shape;
  if (mean.prefill_new_tokens > 0.0) {
    shape.prefill_new_tokens = std::max<std::uint64_t>(1, whole(mean.prefill_new_tokens));
    shape.prefill_requests = std::max<std::uint32_t>(1, static_cast<std::uint32_t>(whole(mean.prefill_requests)));
    shape.prefill_context_tokens = whole(mean.prefill_context_tokens);
    shape.prefill_attention_pairs = mean.prefill_attention_pairs;
  }
  if (sequences > 0.0) {
    shape.decode_sequences = static_cast<std::uint32_t>(std::min(sequences, 1e9));
    shape.decode_context_tokens = whole(mean.decode_context_tokens * (sequences / mean.decode_sequences));
  }
  shape.active_kv_tokens = whole(mean.active_kv_tokens);
  shape.total_kv_tokens = std::max<std::uint64_t>(1, whole(mean.total_kv_tokens));
  return core::to_milliseconds(model.step(shape));
}

}  // namespace

double mean_step_ms(const engine::StepTimeModel& model, const MeanShape& shape) {
  const double below = std::floor(shape.decode_sequences), share = shape.decode_sequences - below;
  if (share == 0.0) return step_ms(model, shape, below);
  // No step decodes less than one sequence; idle times belong to no step.
  if (below == 0.0 && shape.prefill_new_tokens <= 0.0) return step_ms(model, shape, 1.0);
  const double low = step_ms(model, shape, below);
  return low + share * (step_ms(model, shape, below + 1.0) - low);
}

}  // namespace penstock::capacity
