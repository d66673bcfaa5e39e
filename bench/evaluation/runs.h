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

// All policies and fixed fleets on one trace, from the fleet that its mean rate needs by a load test of one replica.
[[nodiscard]] core::Result<TraceEvaluation> evaluate_trace(const EvaluationTrace& trace, const EvaluationScope& scope,
                                                           const ShowProgress& show);

// The policy under test in each scenario, in their order. Fixed fleets to compare with are those of the traces that
// were evaluated before, since start-up, telemetry and profile are nothing to them; for made-up traffic they run here.
[[nodiscard]] core::Result<std::vector<ScenarioEvaluation>> evaluate_scenarios(
    const std::vector<EvaluationScenario>& scenarios, const std::vector<TraceEvaluation>& traces,
    const EvaluationScope& scope, const ShowProgress& show);

}  // namespace penstock::evaluation
