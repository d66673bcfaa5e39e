// The rules of Diagnoser for one pool at one time, one rule per objective.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "core/time.h"
#include "planner/diagnosis.h"
#include "planner/objective_latency.h"

namespace penstock::planner {

// The input of a rule. Refers to values that outlive the call.
struct PoolView {
  const signals::Observation& observation;
  std::uint32_t index;
  const signals::PoolObservation& pool;
  const PoolHistory& history;
  const signals::SloPolicy& slo;
  const DiagnosisOptions& options;
  const PoolView* decode = nullptr;  // Of a prefill pool: the pool that continues its requests, if there is one.
  // Where segments have objectives of their own; empty: all requests have the general one.
  std::span<const ObjectiveLatency> by_objective{};
  std::optional<std::uint8_t> own_requests{};  // RecentRequest::pool of its requests; none: all are its own.
};

// Returns nothing if the latency is within its limit for all segments, or if there is no data.
[[nodiscard]] std::optional<Finding> judge_ttft(const PoolView& view);  // For a pool that receives prompts.
[[nodiscard]] std::optional<Finding> judge_itl(const PoolView& view);   // For a pool that decodes.

}  // namespace penstock::planner
