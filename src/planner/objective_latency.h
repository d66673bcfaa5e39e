// Latencies of the last minute by objective: where segments have objectives of their own, the figures of all requests
// say nothing about any of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/time.h"
#include "signals/observation.h"
#include "signals/slo.h"

namespace penstock::planner {

struct Percentile {
  std::uint64_t count = 0;
  double p95_ms = 0.0;  // If count is 0, it has no meaning.
};

// Of streamed requests with one objective.
struct ObjectiveLatency {
  Percentile ttft, itl;  // Of first tokens, and of requests that completed, in the last minute.
  bool waits = false;    // Some arrived in the last minute, or wait for their first token.
};

// By pool, as RecentRequest has it, and index of the objective, as target_index() gives it. With one pool, requests of
// all pools count as its own. Costs a pass over all recent requests.
[[nodiscard]] std::vector<std::vector<ObjectiveLatency>> objective_latencies(const signals::Observation& observation,
                                                                             const signals::SloPolicy& slo,
                                                                             std::size_t pools);

// Streamed requests with one objective whose latency is bad.
struct ObjectiveRequests {
  std::size_t objective = 0;
  std::optional<std::uint8_t> pool{};  // None: of all pools.
  bool is_itl = false;                 // Otherwise their TTFT is bad.
  double limit_ms = 0.0;
  std::uint64_t samples_min = 0;  // Of a part of them.
};

struct ObjectivePart {
  std::string name;  // "prompt tokens 16k-64k", "output tokens 1k and more" or "tenant acme".
  Percentile latency;
};

// Returns the part of the requests that differs most from the others: the one with the largest ratio between its p95,
// which is beyond the limit, and the worst p95 within the limit of a part of the same kind. Nothing: all are late
// alike. Costs a pass over all recent requests.
[[nodiscard]] std::optional<ObjectivePart> latest_part(const signals::Observation& observation,
                                                       const ObjectiveRequests& requests);

}  // namespace penstock::planner
