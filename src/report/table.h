// The report for a terminal.
#pragma once

#include <cstddef>
#include <string>

#include "report/run_info.h"

namespace penstock::report {

inline constexpr std::size_t kTableWidth = 140;

struct TableStyle {
  bool colour = false;              // ANSI colours and bold; the caller knows whether it writes to a terminal
  std::size_t width = kTableWidth;  // columns of the terminal
};

// Text of the parts that several tables have. A paragraph is at most as wide as kTableWidth and the terminal.
[[nodiscard]] std::string paragraph(const std::string& text, const TableStyle& style);
[[nodiscard]] std::string replayed_text(const RunInfo& info, bool has_segments);
[[nodiscard]] bool has_segments(const Report& report);  // Requests are judged by targets of several segments.

// "102 ms", or "–" if nothing was measured.
[[nodiscard]] std::string latency_text(const core::Summary& summary, double value_ms);
// "4", or "2→8 ~7.1" of a fleet that changed, with replicas asleep and switches of roles.
[[nodiscard]] std::string fleet_text(const decision::RunResult& result);

// What was replayed, the policies best first, the frontier of static fleets, what failed or was left out, and the
// headline. At most as wide as kTableWidth and the terminal: long names are cut, prose is wrapped, and a narrow table
// leaves out the columns that matter least, with a line that says so. Ends with a newline. Names are made safe to
// print.
[[nodiscard]] std::string render_table(const Report& report, const TableStyle& style);

}  // namespace penstock::report
