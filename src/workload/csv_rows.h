// Trace tables: Azure's, BurstGPT's, and others whose header uses common column names.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "core/result.h"
#include "workload/trace_row.h"

namespace penstock::workload {

// Rows of one prefix group share their first tokens in blocks of this size.
inline constexpr std::uint32_t kPrefixBlockTokens = 64;
inline constexpr std::uint32_t kPrefixTokensMax = 1'000'000;

// Returns true if `line` names at least one known column.
[[nodiscard]] bool looks_like_header(std::string_view line);

// `place` is the location of the header, for messages. With Format::kAuto the columns determine the format. Missing or
// duplicate columns are errors.
[[nodiscard]] core::Result<std::unique_ptr<RowParser>> csv_row_parser(const std::string& place, std::string_view header,
                                                                      Format format, Wanted wanted);

}  // namespace penstock::workload
