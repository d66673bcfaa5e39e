// Traces as tables: Azure's, BurstGPT's, and any other whose header names its columns in one of the usual ways.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "core/result.h"
#include "workload/trace_row.h"

namespace penstock::workload {

// A row may share its first tokens with those of its prefix group, in blocks of this size.
inline constexpr std::uint32_t kPrefixBlockTokens = 64;
inline constexpr std::uint32_t kPrefixTokensMax = 1'000'000;

// Whether `line` names at least one column that a trace may have.
[[nodiscard]] bool looks_like_header(std::string_view line);

// `place` is the header's, for messages. With Format::kAuto the columns tell the format. Errors: a column that is
// missing, or there twice.
[[nodiscard]] core::Result<std::unique_ptr<RowParser>> csv_row_parser(const std::string& place, std::string_view header,
                                                                      Format format, Wanted wanted);

}  // namespace penstock::workload
