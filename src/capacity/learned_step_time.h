// A step-time law that is learned from an engine's iterations alone, for engines that nobody profiled.
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

// busy = step·steps + prefill_token·new prompt tokens + sequence·decoded tokens + kv_token·context tokens read, by
// recursive least squares with exponential forgetting and coefficients that are not negative. The prompt steps and the
// decode-only steps of an interval are an equation each, weighted by 1 / busy. Of coefficients that the traffic so far
// cannot tell apart, any share may have gone to each.
class LearnedStepTime {
 public:
  // Plausible intervals with steps only. Everything known before counts `kept` (0 to 1) times as much.
  void add(const IterationInterval& interval, double kept);

  // None until there are enough intervals. Finite, ≥ 0, step_ms above 0.
  [[nodiscard]] std::optional<engine::LinearCoefficients> coefficients() const;
  // The same as a model, "learned:STEP,SEQUENCE,PREFILL_TOKEN,KV_TOKEN" in ms; null while there are no coefficients.
  [[nodiscard]] std::shared_ptr<const engine::StepTimeModel> model() const;

  // Whether steps with prompts were among what it learned from; without, prompt tokens cost nothing in it.
  [[nodiscard]] bool has_seen_prompts() const { return normal_[1][1] > 0.0; }
  [[nodiscard]] std::uint64_t intervals() const { return intervals_; }

  void archive(core::StateArchive& state) { state.values_of(normal_, moment_, intervals_); }

 private:
  using Row = std::array<double, 4>;  // steps, new prompt tokens, decoded sequences, context tokens
  static Row row_of(const core::IterationSums& sums, std::uint64_t new_tokens, std::uint64_t context_tokens);
  void add_row(const Row& row, double busy_ms);

  std::array<Row, 4> normal_{};  // Σ weight · row rowᵀ
  Row moment_{};                 // Σ weight · row busy
  std::uint64_t intervals_ = 0;
};

}  // namespace penstock::capacity
