// Rows of a trace from any place: the lines of a file, or the entries of a database.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/result.h"
#include "workload/reader.h"
#include "workload/trace_row.h"

namespace penstock::workload {

class RowSource {
 public:
  virtual ~RowSource() = default;
  RowSource() = default;
  RowSource(const RowSource&) = delete;
  RowSource& operator=(const RowSource&) = delete;

  // Overwrites all of `row`, whose views are valid until the next call; `row.fault` tells what is wrong with it.
  // Returns false after the last row.
  [[nodiscard]] virtual core::Result<bool> next(TraceRow& row) = 0;
  [[nodiscard]] virtual std::string place() const = 0;  // Of the latest row, for messages.
  [[nodiscard]] virtual Format format() const = 0;      // Final after the first valid row.
  [[nodiscard]] virtual std::uint32_t block_tokens() const = 0;
  // False: rows may have any order, and all are read before the window applies.
  [[nodiscard]] virtual bool is_sorted() const = 0;
};

// Reads a workload as read_workload() does. `name` identifies the trace in messages.
[[nodiscard]] core::Result<Workload> read_workload_rows(const std::string& name, RowSource& rows,
                                                        const ReadOptions& options, ReadReport* report = nullptr);

}  // namespace penstock::workload
