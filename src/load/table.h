// Result of a run as a table for a terminal.
#pragma once

#include <string>

#include "load/run_summary.h"

namespace penstock::load {

// Ends with a newline. External text is sanitised for printing.
[[nodiscard]] std::string render_table(const RunSummary& run, const Tally& tally);

}  // namespace penstock::load
