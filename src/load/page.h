// Result of a run as an HTML page.
#pragma once

#include <string>

#include "load/run_summary.h"

namespace penstock::load {

// A self-contained page without scripts: tables, charts over time, histograms, segments, failure causes. Follows the
// reader's light or dark mode. External text is escaped.
[[nodiscard]] std::string to_page(const RunSummary& run, const Tally& tally);

}  // namespace penstock::load
