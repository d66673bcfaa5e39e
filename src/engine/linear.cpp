#include "engine/linear.h"

#include <fmt/format.h>

#include <cmath>

#include "engine/decode_growth.h"

namespace penstock::engine {
namespace {

constexpr double kCoefficientMsMax = 3.6e6;

}  // namespace

core::Result<Linear> Linear::make(const LinearCoefficients& coefficients) {
  const struct {
    const char* name;
    double value;
  } named[] = {{"alpha", coefficients.step_ms},
               {"beta", coefficients.sequence_ms},
               {"gamma", coefficients.prefill_token_ms},
               {"delta", coefficients.kv_token_ms}};
  for (const auto& [name, value] : named)
    if (!(value >= 0.0 && value <= kCoefficientMsMax))
      return core::invalid_input("linear", fmt::format("{} must be from 0 to 3600000 ms, is {}", name, value));
  if (coefficients.step_ms == 0.0)
    return core::invalid_input("linear", "alpha must be above 0", "an engine's step takes some milliseconds");
  return Linear{coefficients};
}

Linear::Linear(const LinearCoefficients& coefficients)
    : coefficients_{coefficients},
      step_ns_{coefficients.step_ms * 1e6},
      sequence_ns_{coefficients.sequence_ms * 1e6},
      prefill_token_ns_{coefficients.prefill_token_ms * 1e6},
      kv_token_ns_{coefficients.kv_token_ms * 1e6} {}

double Linear::fixed_ns(const StepShape& shape) const {
  return step_ns_ + sequence_ns_ * shape.decode_sequences +
         prefill_token_ns_ * static_cast<double>(shape.prefill_new_tokens) +
         kv_token_ns_ * static_cast<double>(shape.prefill_context_tokens);
}

core::Duration Linear::time(double fixed_ns, std::uint64_t context_tokens) const {
  return whole_nanoseconds(fixed_ns + kv_token_ns_ * static_cast<double>(context_tokens));
}

core::Duration Linear::step(const StepShape& shape) const { return time(fixed_ns(shape), shape.decode_context_tokens); }

DecodeRun Linear::decode_run(const StepShape& shape, std::uint32_t steps, core::Duration limit) const {
  const double fixed = fixed_ns(shape);
  return run_while_growing(shape, steps, limit, [&](std::uint64_t context) { return time(fixed, context); });
}

std::string Linear::description() const {
  return fmt::format("linear:{},{},{},{}", coefficients_.step_ms, coefficients_.sequence_ms,
                     coefficients_.prefill_token_ms, coefficients_.kv_token_ms);
}

}  // namespace penstock::engine
