// Latencies of the last minute by objective: where segments have objectives of their own, the figures of all requests
// say nothing about any of them.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/time.h"
#include "signals/observation.h"
#include "signals/slo.h"

namespace penstock::planner {

// Of streamed requests with one objective.
struct ObjectiveLatency {
  signals::LatencyWindow ttft, itl;  // Of first tokens, and of requests that completed, in the last minute.
  bool waits = false;                // Some arrived in the last minute, or wait for their first token.
};

// By index of the objective, as target_index() gives it. `pool`: that of RecentRequest; none: of all pools. Costs a
// pass over all recent requests.
[[nodiscard]] std::vector<ObjectiveLatency> objective_latencies(const signals::Observation& observation,
                                                                const signals::SloPolicy& slo,
                                                                std::optional<std::uint8_t> pool);

}  // namespace penstock::planner
