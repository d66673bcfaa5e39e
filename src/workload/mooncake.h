// Mooncake traces: one JSON object per line.
#pragma once

#include <memory>
#include <string_view>

#include "workload/time_format.h"
#include "workload/trace_row.h"

namespace penstock::workload {

// Requires timestamp (ms with TimeFormat::kAuto), input_length and output_length; hash_ids are optional. Fields may be in any order, and other
// fields are ignored.
[[nodiscard]] std::unique_ptr<RowParser> mooncake_row_parser(Wanted wanted, TimeFormat time_format);

// Returns true if `line` (followed by padding, as for RowParser) is a JSON object with a list "requests": a whole
// session with relative times, as in recordings of coding agents.
[[nodiscard]] bool is_whole_session(std::string_view line);

}  // namespace penstock::workload
