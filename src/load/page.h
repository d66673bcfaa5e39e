// A run for people with a browser.
#pragma once

#include <string>

#include "load/run_summary.h"

namespace penstock::load {

// One page that needs nothing but itself, and no script: figures, charts over time, histograms, segments, causes. Light or
// dark as the reader's system is. Text from outside is escaped.
[[nodiscard]] std::string to_page(const RunSummary& run, const Tally& tally);

}  // namespace penstock::load
