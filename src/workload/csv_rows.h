// Trace tables: Azure's, BurstGPT's, and others whose header uses common column names.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"
#include "workload/columns.h"
#include "workload/time_format.h"
#include "workload/trace_row.h"

namespace penstock::workload {

// Rows of one prefix group share their first tokens in blocks of this size.
inline constexpr std::uint32_t kPrefixBlockTokens = 64;
inline constexpr std::uint32_t kPrefixTokensMax = 1'000'000;

// Returns true if `line` names at least one known column.
[[nodiscard]] bool looks_like_header(std::string_view line);

// What a table is read with.
struct TableOptions {
  Format format = Format::kAuto;
  ColumnMapping columns{};
  TimeFormat time_format = TimeFormat::kAuto;
  Wanted wanted = Wanted::kRequests;
};

// `place` is the location of the header, for messages, and `sample` has the first rows, which tell the format of times.
// With Format::kAuto the columns determine the format. Missing or duplicate columns, and times whose format is in
// doubt, are errors.
[[nodiscard]] core::Result<std::unique_ptr<RowParser>> csv_row_parser(const std::string& place, std::string_view header,
                                                                      std::span<const std::string_view> sample,
                                                                      const TableOptions& options);

// The columns of a line with at least two fields of which none is a number; otherwise empty.
[[nodiscard]] std::vector<std::string> foreign_header(std::string_view line);

}  // namespace penstock::workload
