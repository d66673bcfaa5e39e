#include "workload/csv.h"

#include <fmt/format.h>

namespace penstock::workload {

Parsed<std::span<const std::string_view>> CsvSplitter::split(std::string_view line) {
  fields_.clear();
  unescaped_.clear();
  unescaped_.reserve(line.size());  // Reserved so that views into it stay valid.
  while (true) {
    if (fields_.size() == kCsvColumnsMax)
      return tl::make_unexpected(fmt::format("has more than {} columns", kCsvColumnsMax));
    const std::size_t text = line.find_first_not_of(" \t");
    if (text != std::string_view::npos && line[text] == '"') {
      line.remove_prefix(text + 1);
      auto field = take_quoted(line);
      if (!field) return tl::make_unexpected(field.error());
      fields_.push_back(*field);
      if (line.empty()) return fields_;
      line.remove_prefix(1);
      continue;
    }
    const std::size_t comma = line.find(',');
    fields_.push_back(trimmed(line.substr(0, comma)));
    if (comma == std::string_view::npos) return fields_;
    line.remove_prefix(comma + 1);
  }
}

// Leaves `rest` empty or at the comma after the field.
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
  const std::size_t next = rest.find_first_not_of(" \t");
  rest.remove_prefix(next == std::string_view::npos ? rest.size() : next);
  if (!rest.empty() && rest[0] != ',')
    return tl::make_unexpected(fmt::format("text follows the quoted field {}", quoted_text(field)));
  return field;
}

}  // namespace penstock::workload
