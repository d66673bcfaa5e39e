// The runs behind the evaluation's page.
#pragma once

#include <functional>
#include <vector>

#include "cli/evaluation_traces.h"
#include "cli/task_pool.h"
#include "core/result.h"
#include "report/evaluation.h"

namespace penstock::cli {

using ShowProgress = std::function<void(const TaskProgress&)>;

// All policies and fixed fleets on one trace, from the fleet that its mean rate needs by a load test of one replica.
[[nodiscard]] core::Result<report::TraceEvaluation> evaluate_trace(const EvaluationTrace& trace,
                                                                   const EvaluationScope& scope,
                                                                   const ShowProgress& show);

// The policy under test in each scenario, in their order. Fixed fleets to compare with are those of the traces that were
// evaluated before, since start-up, telemetry and profile are nothing to them; for made-up traffic they run here.
[[nodiscard]] core::Result<std::vector<report::ScenarioEvaluation>> evaluate_scenarios(
    const std::vector<EvaluationScenario>& scenarios, const std::vector<report::TraceEvaluation>& traces,
    const EvaluationScope& scope, const ShowProgress& show);

}  // namespace penstock::cli
