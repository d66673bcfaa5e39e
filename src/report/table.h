// The report for a terminal.
#pragma once

#include <string>

#include "report/run_info.h"

namespace penstock::report {

struct TableStyle {
  bool colour = false;  // ANSI colours and bold; the caller knows whether it writes to a terminal
};

// What was replayed, the policies best first, the frontier of static fleets, what failed or was left out, and the
// headline. At most 140 columns wide: long names are cut and prose is wrapped. Ends with a newline. Names are made safe
// to print.
[[nodiscard]] std::string render_table(const Report& report, const TableStyle& style);

}  // namespace penstock::report
