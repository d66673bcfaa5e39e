#include "workload/csv.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace penstock::workload {

char separator_of(std::string_view header) {
  constexpr std::string_view kSeparators = ",;\t";
  std::array<std::size_t, kSeparators.size()> counts{};
  bool quoted = false;
  for (const char c : header) {
    quoted = quoted != (c == '"');
    if (const std::size_t known = kSeparators.find(c); known != std::string_view::npos && !quoted) ++counts[known];
  }
  return kSeparators[static_cast<std::size_t>(std::max_element(counts.begin(), counts.end()) - counts.begin())];
}

Parsed<std::span<const std::string_view>> CsvSplitter::split(std::string_view line) {
  fields_.clear();
  unescaped_.clear();
  unescaped_.reserve(line.size());  // Reserved so that views into it stay valid.
  while (true) {
    if (fields_.size() == kCsvColumnsMax)
      return tl::make_unexpected(fmt::format("has more than {} columns", kCsvColumnsMax));
    const std::size_t text = line.find_first_not_of(blanks());
    if (text != std::string_view::npos && line[text] == '"') {
      line.remove_prefix(text + 1);
      auto field = take_quoted(line);
      if (!field) return tl::make_unexpected(field.error());
      fields_.push_back(*field);
      if (line.empty()) return fields_;
      line.remove_prefix(1);
      continue;
    }
    const std::size_t end = line.find(separator_);
    fields_.push_back(trimmed(line.substr(0, end)));
    if (end == std::string_view::npos) return fields_;
    line.remove_prefix(end + 1);
  }
}

// Leaves `rest` empty or at the separator after the field.
Parsed<std::string_view> CsvSplitter::take_quoted(std::string_view& rest) {
  std::string_view field;
  const std::size_t begin = unescaped_.size();
  bool copied = false;
  while (true) {
    const std::size_t quote = rest.find('"');
    if (quote == std::string_view::npos)
      return tl::make_unexpected(std::string{"a quoted field does not end on its line"});
    const bool doubled = quote + 1 < rest.size() && rest[quote + 1] == '"';
    if (doubled || copied) {
      unescaped_.append(rest.substr(0, quote + (doubled ? 1 : 0)));
      copied = true;
    } else {
      field = rest.substr(0, quote);
    }
    rest.remove_prefix(quote + (doubled ? 2 : 1));
    if (!doubled) break;
  }
  if (copied) field = std::string_view{unescaped_}.substr(begin);
  const std::size_t next = rest.find_first_not_of(blanks());
  rest.remove_prefix(next == std::string_view::npos ? rest.size() : next);
  if (!rest.empty() && rest[0] != separator_)
    return tl::make_unexpected(fmt::format("text follows the quoted field {}", quoted_text(field)));
  return field;
}

}  // namespace penstock::workload
