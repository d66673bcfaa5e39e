#include "engine/polynomial.h"

#include "engine/decode_growth.h"

namespace penstock::engine {

core::Duration Polynomial::step(const StepShape& shape) const {
  double milliseconds = 0.0;
  if (shape.prefill_new_tokens > 0) {
    const auto n = static_cast<double>(shape.prefill_new_tokens);
    milliseconds = 4.209989e-07 * n * n + 1.518344e-02 * n + 16.50142;
  }
  if (shape.decode_sequences > 0) {
    const double p = static_cast<double>(shape.active_kv_tokens) / static_cast<double>(shape.total_kv_tokens);
    milliseconds += std::max(1.0, -25.74 * p * p + 54.01 * p + 5.74);
  }
  return whole_nanoseconds(milliseconds * 1e6);
}

DecodeRun Polynomial::decode_run(const StepShape& shape, std::uint32_t steps, core::Duration limit) const {
  // No block is gained in a run, so the usage, and with it the time, stays.
  return run_at_constant_pace(step(shape), steps, limit);
}

}  // namespace penstock::engine
