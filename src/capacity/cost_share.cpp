#include "capacity/cost_share.h"

#include <algorithm>
#include <cmath>

namespace penstock::capacity {

double input_cost_share(const engine::StepTimeModel& model, const TrafficShape& shape, const EngineLimits& limits,
                        double sequences) {
  const auto whole = [](double value) { return static_cast<std::uint64_t>(std::llround(std::max(0.0, value))); };
  const double computed = std::max(1.0, shape.input_tokens * (1.0 - shape.cached_share));
  const double context = std::max(0.0, shape.input_tokens - computed);
  const double chunk = std::clamp(computed, 1.0, std::max(1.0, limits.max_batched_tokens));
  engine::StepShape prompt;
  prompt.prefill_requests = 1;
  prompt.prefill_new_tokens = whole(chunk);
  prompt.prefill_context_tokens = whole(context);
  prompt.prefill_attention_pairs = chunk * (context + (computed + 1.0) / 2.0);
  prompt.total_kv_tokens = std::max<std::uint64_t>(1, whole(limits.kv_tokens));
  const double input_ms = core::to_milliseconds(model.step(prompt)) * computed / chunk;

  engine::StepShape decode;
  decode.decode_sequences = static_cast<std::uint32_t>(
      std::clamp(std::round(sequences), 1.0, std::max(1.0, std::floor(limits.max_sequences))));
  decode.decode_context_tokens = whole(decode.decode_sequences * (shape.input_tokens + shape.output_tokens / 2.0));
  decode.active_kv_tokens = decode.decode_context_tokens;
  decode.total_kv_tokens = prompt.total_kv_tokens;
  const double output_ms =
      core::to_milliseconds(model.step(decode)) / decode.decode_sequences * std::max(0.0, shape.output_tokens - 1.0);
  return input_ms + output_ms > 0.0 ? input_ms / (input_ms + output_ms) : 0.5;
}

}  // namespace penstock::capacity
