// The inner loop that step-time models share: consecutive decode steps, each with every context one token longer.
#pragma once

#include <algorithm>
#include <cstdint>

#include "engine/step_time.h"

namespace penstock::engine {

// Rounds a step's time to whole nanoseconds, at least one. The plain conversion is several times faster than llround
// and equally exact for positive times below 2^52 ns. Times are capped at 10^18 ns, about thirty years.
[[nodiscard]] inline core::Duration whole_nanoseconds(double nanoseconds) {
  return core::Duration{std::max<std::int64_t>(static_cast<std::int64_t>(std::min(nanoseconds, 1e18) + 0.5), 1)};
}

// `time_of(context tokens)` must return bit for bit what step() computes for the shape with that context.
template <class TimeOf>
[[nodiscard]] DecodeRun run_while_growing(const StepShape& shape, std::uint32_t steps, core::Duration limit,
                                          const TimeOf& time_of) {
  DecodeRun run;
  std::uint64_t context = shape.decode_context_tokens;
  do {
    run.time += time_of(context);
    ++run.steps;
    context += shape.decode_sequences;
  } while (run.steps < steps && run.time < limit);
  return run;
}

// Closed form for steps that all take the same time.
[[nodiscard]] inline DecodeRun run_at_constant_pace(core::Duration step, std::uint32_t steps, core::Duration limit) {
  const std::int64_t until_limit = limit <= step ? 1 : (limit.count() - 1) / step.count() + 1;
  const auto made = static_cast<std::uint32_t>(std::min<std::int64_t>(steps, until_limit));
  return {std::max<std::uint32_t>(made, 1), step * std::max<std::uint32_t>(made, 1)};
}

}  // namespace penstock::engine
