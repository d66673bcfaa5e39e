#include "workload/trace_row.h"

#include <fmt/format.h>

#include <charconv>

#include "core/traffic_class.h"

namespace penstock::workload {

std::string normalized(std::string_view name) {
  std::string text{name};
  for (char& c : text) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    if (c == ' ' || c == '-') c = '_';
  }
  return text;
}

Parsed<std::int8_t> parse_priority(std::string_view column, std::string_view text) {
  std::int8_t priority = 0;
  const char* const end = text.data() + text.size();
  const auto [after, error] = std::from_chars(text.data(), end, priority);
  if (!text.empty() && (error != std::errc{} || after != end))
    return wrong(fmt::format("{} {} is not a whole number from -128 to 127", column, quoted_text(text)));
  return priority;
}

Parsed<TrafficClass> parse_traffic_class(std::string_view column, std::string_view text) {
  const std::string name = normalized(text.substr(0, kNameBytesMax));
  if (name == core::kBatchClass) return TrafficClass::kBatch;
  if (name.empty() || name == core::kInteractiveClass) return TrafficClass::kInteractive;
  return wrong(fmt::format("{} {} is neither interactive nor batch", column, quoted_text(text)));
}

Parsed<bool> parse_streamed(std::string_view column, std::string_view text) {
  const std::string word = normalized(text.substr(0, kNameBytesMax));
  if (word.empty() || word == "true" || word == "1") return true;
  if (word == "false" || word == "0") return false;
  return wrong(fmt::format("{} {} is neither true nor false", column, quoted_text(text)));
}

Parsed<std::string_view> parse_name(std::string_view column, std::string_view text) {
  if (text.size() > kNameBytesMax) return wrong(fmt::format("{} is longer than {} bytes", column, kNameBytesMax));
  return text;
}

}  // namespace penstock::workload
