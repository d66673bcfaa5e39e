// The time of iterations: a step-time model and a factor by which the engine is slower.
#pragma once

#include <cmath>
#include <cstdint>

#include "core/time.h"
#include "engine/step_time.h"

namespace penstock::engine {

// The model must outlive it.
class IterationTimer {
 public:
  explicit IterationTimer(const StepTimeModel& model) : model_(model) {}

  void slow_down(double factor) { slow_factor_ = factor; }

  // As StepTimeModel::decode_run: up to `steps` steps that begin with `shape`, the last of them the first to reach
  // `limit`.
  [[nodiscard]] DecodeRun measure(const StepShape& shape, std::uint32_t steps, core::Duration limit) const {
    if (slow_factor_ == 1.0) {
      if (steps == 1) return {1, model_.step(shape)};
      return model_.decode_run(shape, steps, limit);
    }
    DecodeRun run;
    StepShape now = shape;
    do {
      run.time += scaled(model_.step(now));
      ++run.steps;
      now.decode_context_tokens += now.decode_sequences;
    } while (run.steps < steps && run.time < limit);
    return run;
  }
  // The time of the last of `steps` steps that begin with `shape`.
  [[nodiscard]] core::Duration last_step(StepShape shape, std::uint32_t steps) const {
    shape.decode_context_tokens += std::uint64_t{shape.decode_sequences} * (steps - 1);
    return measure(shape, 1, core::Duration::max()).time;
  }

 private:
  [[nodiscard]] core::Duration scaled(core::Duration time) const {
    return core::Duration{std::llround(static_cast<double>(time.count()) * slow_factor_)};
  }

  const StepTimeModel& model_;
  double slow_factor_ = 1.0;
};

}  // namespace penstock::engine
