// A step-time model that is learned from an engine's iterations, for engines without a profile.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>

#include "capacity/iteration_interval.h"
#include "core/state_archive.h"
#include "engine/linear.h"
#include "engine/step_time.h"

namespace penstock::capacity {

// Fits busy = step·steps + prefill_token·new prompt tokens + sequence·decoded tokens + kv_token·context tokens read by
// recursive least squares with exponential forgetting and non-negative coefficients. The prompt steps and the
// decode-only steps of an interval form one equation each, weighted by 1 / busy. Coefficients that the traffic does not
// distinguish may share their effect arbitrarily.
class LearnedStepTime {
 public:
  // The interval must be plausible and have steps. Earlier data is weighted by `kept` (0 to 1).
  void add(const IterationInterval& interval, double kept);

  // Empty until there are enough intervals. Finite, not negative, step_ms positive.
  [[nodiscard]] std::optional<engine::LinearCoefficients> coefficients() const;
  // The same as a model, "learned:STEP,SEQUENCE,PREFILL_TOKEN,KV_TOKEN" in ms; null without coefficients.
  [[nodiscard]] std::shared_ptr<const engine::StepTimeModel> model() const;

  // Returns true if steps with prompts were observed. Otherwise prompt tokens have no cost in the model.
  [[nodiscard]] bool has_seen_prompts() const { return normal_[1][1] > 0.0; }
  [[nodiscard]] std::uint64_t intervals() const { return intervals_; }

  void archive(core::StateArchive& state) { state.values_of(normal_, moment_, intervals_); }

 private:
  using Row = std::array<double, 4>;  // Steps, new prompt tokens, decoded sequences, context tokens.
  static Row row_of(const core::IterationSums& sums, std::uint64_t new_tokens, std::uint64_t context_tokens);
  void add_row(const Row& row, double busy_ms);

  std::array<Row, 4> normal_{};  // Σ weight · row rowᵀ.
  Row moment_{};                 // Σ weight · row busy.
  std::uint64_t intervals_ = 0;
};

}  // namespace penstock::capacity
