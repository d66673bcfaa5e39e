// Runs of Penstock's policy beyond the comparison on one trace: one part off at a time.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"
#include "evaluation/evaluation.h"
#include "evaluation/runs.h"
#include "evaluation/trace_runs.h"
#include "evaluation/traces.h"

namespace penstock::evaluation {

// One part of Penstock that is off, or another one that is on.
struct Ablation {
  std::string_view name;           // "no load loop"
  std::string_view flags{};        // Of `penstock replay`.
  PlannerChange change = nullptr;  // Where no flag does it; null: nothing.
  std::string_view only_on{};      // The name of a trace; empty: all of ablation_traces().
  bool on_days = false;            // On traces that last a day, too, where a run takes minutes.
};
// The first has all parts as shipped.
[[nodiscard]] std::span<const Ablation> ablations();

// Where parts are switched off, and the goals there: with several, a row is also compared at equal attainment.
struct AblationTrace {
  std::string_view name;
  std::vector<double> goals;
};
[[nodiscard]] std::vector<AblationTrace> ablation_traces(const EvaluationScope& scope);

// `evaluated` has the names of traces on which Penstock runs anyway: their rows as shipped stay empty.
[[nodiscard]] core::Result<std::vector<AblationEvaluation>> evaluate_ablations(const EvaluationScope& scope,
                                                                               std::span<const std::string> evaluated,
                                                                               const ShowProgress& show);
// Fills empty rows as shipped with Penstock's runs on the trace.
void fill_shipped(Evaluation& evaluation);

}  // namespace penstock::evaluation
