// Attainment against GPU-hours, one picture a trace.
#pragma once

#include <string>

#include "evaluation/evaluation.h"

namespace penstock::evaluation {

// An SVG: for Penstock, each peer, fixed fleets and the clairvoyant a line through the efficient runs and dots for all
// runs. Upwards each step halves, or nearly, the requests that miss the SLO, because policies differ in the last per
// cent.
[[nodiscard]] std::string attainment_chart(const TraceEvaluation& trace);

}  // namespace penstock::evaluation
