// Mooncake's traces: one JSON object a line.
#pragma once

#include <memory>
#include <string_view>

#include "workload/trace_row.h"

namespace penstock::workload {

// Wants timestamp (ms), input_length and output_length; takes hash_ids where they are. The order of the fields does not
// matter, and others are passed over.
[[nodiscard]] std::unique_ptr<RowParser> mooncake_row_parser(Wanted wanted);

// Whether `line` (followed by padding, as for RowParser) is a JSON object with a list "requests": a whole session, as
// in recordings of coding agents, whose times count from its own start.
[[nodiscard]] bool is_whole_session(std::string_view line);

}  // namespace penstock::workload
