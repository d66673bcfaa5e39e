// The part of the time, and so of the cost, of an aggregated engine that prompts cause.
#pragma once

#include "capacity/token_formula.h"

namespace penstock::capacity {

// Share of the engine's time, 0 to 1: the steps that a prompt of mean length takes alone, against the steps of its
// answer divided by the `sequences` that are decoded at once. The cached part of prompts is not computed.
[[nodiscard]] double input_cost_share(const engine::StepTimeModel& model, const TrafficShape& shape,
                                      const EngineLimits& limits, double sequences);

}  // namespace penstock::capacity
