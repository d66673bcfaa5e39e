// One line of comma-separated values as fields (RFC 4180, but no line breaks inside quotes).
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "workload/fields.h"

namespace penstock::workload {

inline constexpr std::size_t kCsvColumnsMax = 1000;

// Keeps its memory from line to line.
class CsvSplitter {
 public:
  // The fields of `line` without the spaces around them and without their quotes; they last until the next call and as
  // long as the line.
  [[nodiscard]] Parsed<std::span<const std::string_view>> split(std::string_view line);

 private:
  [[nodiscard]] Parsed<std::string_view> take_quoted(std::string_view& rest);

  std::vector<std::string_view> fields_;
  std::string unescaped_;  // fields that hold doubled quotes
};

}  // namespace penstock::workload
