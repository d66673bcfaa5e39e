// The default engine timing of NVIDIA Dynamo, for comparable runs: the time of a pass is its prefill time plus its
// decode time.
#pragma once

#include "engine/step_time.h"

namespace penstock::engine {

// prefill_ms(n new tokens) = 4.209989e-07·n² + 1.518344e-02·n + 16.50142 if the pass computes prompt tokens;
// decode_ms(p) = max(1, −25.74·p² + 54.01·p + 5.74) if a sequence decodes, where p is the sum of the lengths of the
// decoding sequences over the total KV tokens, at most 1; with StepShape::dynamo_13 it is active over total KV tokens.
class Polynomial final : public StepTimeModel {
 public:
  [[nodiscard]] core::Duration step(const StepShape& shape) const override;
  [[nodiscard]] DecodeRun decode_run(const StepShape& shape, std::uint32_t steps, core::Duration limit) const override;
  [[nodiscard]] std::string description() const override { return "polynomial"; }
};

}  // namespace penstock::engine
