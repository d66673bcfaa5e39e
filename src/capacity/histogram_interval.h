// The work of an engine between two samples, from its histograms and counters: for engines that do not report their
// iterations one by one.
#pragma once

#include <optional>

#include "capacity/iteration_interval.h"
#include "signals/observation.h"

namespace penstock::capacity {

// Returns true if a counter that histogram_interval() reads decreased, which means that the engine restarted.
[[nodiscard]] bool histograms_went_back(const signals::EngineSample& before, const signals::EngineSample& after);

// The mean gap between tokens stands for the time of a step. The number of steps is the engine's own count of
// iterations or, without one, decoded tokens / running requests. Each new prompt takes one step, and tokens are divided
// equally between prompts and between steps, because histograms do not show more. The time is divided equally between
// steps, too: only its sum has a meaning. Steps that only compute prompts have no gap, and are not counted.
//
// Empty if an engine reports no gaps, or no token was decoded. `after` must be later, with no counter decreased.
[[nodiscard]] std::optional<IterationInterval> histogram_interval(const signals::EngineSample& before,
                                                                  const signals::EngineSample& after);

}  // namespace penstock::capacity
