// The report for programs.
#pragma once

#include <string>

#include "report/run_info.h"

namespace penstock::report {

// One JSON object, pretty-printed, that ends with a newline: `penstock` (version), `headline`, `answer`, `workload`,
// `options`, `notes`, `results` and `frontier`, both best first. Latencies are in milliseconds, a share is 0..1, a
// `series` is one array per column. A figure without a measurement is null. Keys keep their order, and numbers are the
// shortest text that reads back equal, so that two equal runs differ in the lines of `simulated_requests_per_s` only.
// Figures that a policy does not provide (`holds`, `forecasts`, a decision's `cause`, `diagnosis`, `phase`,
// `next_phase_target`) have no key.
[[nodiscard]] std::string to_json(const Report& report);

}  // namespace penstock::report
