// A run for programs.
#pragma once

#include <string>

#include "load/run_summary.h"

namespace penstock::load {

// JSON; docs/load.md lists the fields. Figures of nothing are null, never zero. Ends with a newline.
[[nodiscard]] std::string to_json(const RunSummary& run, const Tally& tally);

}  // namespace penstock::load
