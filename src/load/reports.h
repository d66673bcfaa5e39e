// The result of a run as JSON, as a page for a browser, and as a table for a terminal.
#pragma once

#include <string>

#include "load/run_summary.h"

namespace penstock::load {

// docs/load.md lists the fields. Values without data are null, never zero. Ends with a newline.
[[nodiscard]] std::string to_json(const RunSummary& run, const Tally& tally);

// One self-contained page that draws the JSON (web/load). External text is never interpreted as markup.
[[nodiscard]] std::string to_page(const RunSummary& run, const Tally& tally);

// Ends with a newline. External text is sanitised for printing.
[[nodiscard]] std::string render_table(const RunSummary& run, const Tally& tally);

}  // namespace penstock::load
