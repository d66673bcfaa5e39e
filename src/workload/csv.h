// Splits a line of values separated by commas, semicolons or tabs (RFC 4180 without line breaks inside quotes).
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "workload/fields.h"

namespace penstock::workload {

inline constexpr std::size_t kCsvColumnsMax = 1000;

// The separator that occurs most outside of quotes: a comma, a semicolon or a tab.
[[nodiscard]] char separator_of(std::string_view header);

// Reuses its memory from line to line.
class CsvSplitter {
 public:
  explicit CsvSplitter(char separator = ',') : separator_{separator} {}

  // Returns the fields of `line` without surrounding spaces and quotes. They are valid until the next call, and no
  // longer than the line.
  [[nodiscard]] Parsed<std::span<const std::string_view>> split(std::string_view line);

 private:
  [[nodiscard]] Parsed<std::string_view> take_quoted(std::string_view& rest);

  [[nodiscard]] std::string_view blanks() const { return separator_ == '\t' ? " " : " \t"; }

  char separator_;
  std::vector<std::string_view> fields_;
  std::string unescaped_;  // Unescaped text of fields with doubled quotes.
};

}  // namespace penstock::workload
