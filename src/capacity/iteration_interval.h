// What an engine did between two of its samples, and how long a step-time model thinks that takes.
#pragma once

#include <cstdint>

#include "core/time.h"
#include "engine/step_time.h"
#include "signals/observation.h"

namespace penstock::capacity {

struct IterationInterval {
  core::IterationTotals done;  // within the interval
  core::Duration elapsed{};
  std::uint64_t kv_capacity_tokens = 0;
};

// Whether the sums can be subtracted at all: times from 0 to a hundred years.
[[nodiscard]] bool is_sane(const core::IterationTotals& totals);

// A counter is lower than before: the engine started again.
[[nodiscard]] bool went_back(const core::IterationTotals& before, const core::IterationTotals& after);

// Both are sane, `after` was sampled later and did not go back.
[[nodiscard]] IterationInterval interval_between(const signals::EngineSample& before,
                                                 const signals::EngineSample& after);

// Whether the figures can be true together: steps take time, no more of it than passed but for the steps under way at
// the ends, prompt steps have prompts, decode steps have sequences, a sum of squares is no less than its mean demands, no
// more KV is in use than there is, and everything is finite. An interval without steps is plausible.
[[nodiscard]] bool is_plausible(const IterationInterval& interval);

// Σ step times, from the means of each kind of step. Steps with prompts are taken as two sorts, with new tokens one
// standard deviation below and above their mean, so that what is quadratic in them is counted. The interval is
// plausible. About six calls of the model; finite and ≥ 0.
[[nodiscard]] double predicted_busy_ms(const engine::StepTimeModel& model, const IterationInterval& interval);

}  // namespace penstock::capacity
