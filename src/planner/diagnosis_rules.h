// The rules behind Diagnoser: one pool at one moment, judged twice.
#pragma once

#include <cstdint>
#include <optional>

#include "core/time.h"
#include "planner/diagnosis.h"

namespace penstock::planner {

// All that a rule may look at. Refers to values that outlive the call.
struct PoolView {
  core::Instant now;
  std::uint32_t index;
  const signals::PoolObservation& pool;
  const PoolHistory& history;
  const signals::SloTarget& slo;
  const DiagnosisOptions& options;
};

// None when the latency keeps its limit, for everybody, or nothing says otherwise.
[[nodiscard]] std::optional<Finding> judge_ttft(const PoolView& view);  // of a pool that prompts enter
[[nodiscard]] std::optional<Finding> judge_itl(const PoolView& view);   // of a pool that decodes

}  // namespace penstock::planner
