// Result of a run as JSON.
#pragma once

#include <string>

#include "load/run_summary.h"

namespace penstock::load {

// docs/load.md lists the fields. Values without data are null, never zero. Ends with a newline.
[[nodiscard]] std::string to_json(const RunSummary& run, const Tally& tally);

}  // namespace penstock::load
