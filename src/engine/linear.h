// The linear iteration model of the serving literature: α + β·batch + γ·prefill tokens + δ·KV tokens.
#pragma once

#include <string>

#include "core/result.h"
#include "engine/step_time.h"

namespace penstock::engine {

struct LinearCoefficients {
  double step_ms = 0.0;           // α, greater than 0.
  double sequence_ms = 0.0;       // β, per sequence that generates a token.
  double prefill_token_ms = 0.0;  // γ, per prompt token that is computed.
  double kv_token_ms = 0.0;       // δ, per context token that is read: of decoding sequences and of earlier chunks.
};

class Linear final : public StepTimeModel {
 public:
  // Returns an error at "linear" if a coefficient is negative, not finite or above an hour, or if α is 0.
  [[nodiscard]] static core::Result<Linear> make(const LinearCoefficients& coefficients);

  [[nodiscard]] core::Duration step(const StepShape& shape) const override;
  [[nodiscard]] DecodeRun decode_run(const StepShape& shape, std::uint32_t steps, core::Duration limit) const override;
  [[nodiscard]] std::string description() const override;

 private:
  explicit Linear(const LinearCoefficients& coefficients);
  [[nodiscard]] double fixed_ns(const StepShape& shape) const;
  [[nodiscard]] core::Duration time(double fixed_ns, std::uint64_t context_tokens) const;

  LinearCoefficients coefficients_;
  double step_ns_, sequence_ns_, prefill_token_ns_, kv_token_ns_;
};

}  // namespace penstock::engine
