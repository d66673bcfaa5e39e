#include "engine/polynomial.h"

#include <algorithm>

#include "engine/decode_growth.h"

namespace penstock::engine {
namespace {

double prefill_ms(const StepShape& shape) {
  if (shape.prefill_new_tokens == 0) return 0.0;
  const auto n = static_cast<double>(shape.prefill_new_tokens);
  return 4.209989e-07 * n * n + 1.518344e-02 * n + 16.50142;
}

double decode_ms(double p) { return std::max(1.0, -25.74 * p * p + 54.01 * p + 5.74); }

double decode_ms(std::uint64_t context_tokens, double per_token) {
  return decode_ms(std::min(1.0, static_cast<double>(context_tokens) * per_token));
}

double share_of_one_token(const StepShape& shape) { return 1.0 / static_cast<double>(shape.total_kv_tokens); }

}  // namespace

core::Duration Polynomial::step(const StepShape& shape) const {
  double milliseconds = prefill_ms(shape);
  if (shape.decode_sequences > 0) {
    const double per_token = share_of_one_token(shape);
    milliseconds += shape.dynamo_13 ? decode_ms(static_cast<double>(shape.active_kv_tokens) * per_token)
                                    : decode_ms(shape.decode_context_tokens, per_token);
  }
  return whole_nanoseconds(milliseconds * 1e6);
}

DecodeRun Polynomial::decode_run(const StepShape& shape, std::uint32_t steps, core::Duration limit) const {
  // No block is gained in a run, so the blocks in use, and with them the time, stay.
  if (shape.dynamo_13) return run_at_constant_pace(step(shape), steps, limit);
  const double prefill = prefill_ms(shape), per_token = share_of_one_token(shape);
  return run_while_growing(shape, steps, limit, [&](std::uint64_t context) {
    return whole_nanoseconds((prefill + decode_ms(context, per_token)) * 1e6);
  });
}

}  // namespace penstock::engine
