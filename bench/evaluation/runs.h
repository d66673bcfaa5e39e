// The runs behind the evaluation's page.
#pragma once

#include <functional>
#include <vector>

#include "core/result.h"
#include "evaluation/evaluation.h"
#include "evaluation/traces.h"
#include "replay/task_pool.h"

namespace penstock::evaluation {

using ShowProgress = std::function<void(const replay::TaskProgress&)>;

// Penstock, the peers, fixed fleets and the clairvoyant on one trace, each with the settings that lead to the compared
// attainments. All start with the smallest fixed fleet that reaches the goal in the first ten minutes.
[[nodiscard]] core::Result<TraceEvaluation> evaluate_trace(const EvaluationTrace& trace, const EvaluationScope& scope,
                                                           const ShowProgress& show);

// Runs peers with the settings that were tuned on other traces, where their own runs do not enclose them.
[[nodiscard]] core::Result<void> run_transfers(std::vector<TraceEvaluation>& traces, const EvaluationScope& scope,
                                               const ShowProgress& show);

// The policy under test in each scenario, in their order.
[[nodiscard]] core::Result<std::vector<ScenarioEvaluation>> evaluate_scenarios(
    const std::vector<EvaluationScenario>& scenarios, const EvaluationScope& scope, const ShowProgress& show);

}  // namespace penstock::evaluation
