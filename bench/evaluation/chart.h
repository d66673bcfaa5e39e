// Attainment against GPU-hours, one picture a trace.
#pragma once

#include <string>

#include "evaluation/evaluation.h"

namespace penstock::evaluation {

// An SVG: fixed fleets as a line, each policy as a numbered dot, the policy under test and the clairvoyant marked.
// Upwards each step halves, or nearly, the requests that miss the SLO, because the last per cent is where policies
// differ.
[[nodiscard]] std::string attainment_chart(const Evaluation& evaluation, const TraceEvaluation& trace);

}  // namespace penstock::evaluation
