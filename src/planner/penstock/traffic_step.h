// Recognises a step in traffic within half a minute, so that the load loop plans for it at once.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "core/time.h"
#include "signals/observation.h"

namespace penstock::planner {

// Fewer arrivals than this show no step.
inline constexpr std::size_t kStepRequests = 10;

// More than twice as many requests as usual in the same time, and more than chance explains.
[[nodiscard]] bool is_far_more(double requests, double usual);

// Returns the time since which far more requests arrive than in any interval of the same length in `recent`: more than
// twice as many, and more than chance explains. Looks at the last 3, 5, 10, 20 and 30 s; traffic that is bursty all
// the time has no step. Empty without a minute of traffic before.
[[nodiscard]] std::optional<core::Instant> traffic_step(std::span<const signals::RecentRequest> recent,
                                                        core::Instant now);

}  // namespace penstock::planner
