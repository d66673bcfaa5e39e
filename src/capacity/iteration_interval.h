// The work of an engine between two samples, and the time that a step-time model predicts for it.
#pragma once

#include <cstdint>
#include <optional>

#include "core/time.h"
#include "engine/step_time.h"
#include "signals/observation.h"

namespace penstock::capacity {

struct IterationInterval {
  core::IterationTotals done;  // Work within the interval.
  core::Duration elapsed{};
  std::optional<std::uint64_t> kv_capacity_tokens;  // Empty if the engine does not report it.
};

// Returns true if the sums can be subtracted: times from 0 to a hundred years.
[[nodiscard]] bool is_sane(const core::IterationTotals& totals);

// Returns true if a counter decreased, which means that the engine restarted.
[[nodiscard]] bool went_back(const core::IterationTotals& before, const core::IterationTotals& after);

// Both samples must be sane; `after` must be later, with no counter decreased.
[[nodiscard]] IterationInterval interval_between(const signals::EngineSample& before,
                                                 const signals::EngineSample& after);

// Returns true if the values are consistent: the steps take time, no more than has passed plus the steps in progress at
// the ends; prompt steps have prompts and decode steps have sequences; a sum of squares is at least what its mean
// requires; KV usage does not exceed the capacity; and all values are finite. An interval without steps is plausible.
[[nodiscard]] bool is_plausible(const IterationInterval& interval);

// Sum of predicted step times from the means of each kind of step. Steps with prompts are split into two sorts, with
// new tokens one standard deviation below and above their mean, so that quadratic terms are included. The interval must
// be plausible. About six calls of the model; finite and not negative.
[[nodiscard]] double predicted_busy_ms(const engine::StepTimeModel& model, const IterationInterval& interval);

}  // namespace penstock::capacity
