// A run for a terminal.
#pragma once

#include <string>

#include "load/run_summary.h"

namespace penstock::load {

// Ends with a newline. What came from outside is made safe to print.
[[nodiscard]] std::string render_table(const RunSummary& run, const Tally& tally);

}  // namespace penstock::load
