// One grammar for single values, whether they come from a flag or from YAML.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"
#include "core/time.h"

namespace penstock::options {

inline constexpr std::size_t kApiKeyBytesMax = 4096;

// All of these return errors without a place; the caller knows it. What was seen is part of the message.

// Decimal digits. A leading zero is refused, because half of the world's tools read 010 as eight.
[[nodiscard]] core::Result<std::uint64_t> parse_count(std::string_view text, std::uint64_t low, std::uint64_t high);
// A finite decimal number, "1.5" or "2e9".
[[nodiscard]] core::Result<double> parse_number(std::string_view text, double low, double high);
// "0.3" or "30%", in [0, 1].
[[nodiscard]] core::Result<double> parse_share(std::string_view text);
// "120s", "50ms", "1h30m", "0"; units ns, us, ms, s, m, h and d. At most ten years.
[[nodiscard]] core::Result<core::Duration> parse_duration(std::string_view text);
// "131072", "128KiB", "2.5GB": bytes, > 0. The unit may be followed by "/s" where a rate is meant.
[[nodiscard]] core::Result<double> parse_bytes(std::string_view text, bool per_second);
// "true" or "false"; "yes", "on" and their like are refused, since YAML's versions disagree on them.
[[nodiscard]] core::Result<bool> parse_boolean(std::string_view text);

struct CountRange {
  std::uint32_t first = 0, last = 0;  // both included; 0..0 is none
  [[nodiscard]] bool empty() const { return last == 0; }
};
// "1..8", or "4" for 4..4; 1 <= first <= last <= high.
[[nodiscard]] core::Result<CountRange> parse_range(std::string_view text, std::uint32_t high);

// Not empty, at most 4096 bytes.
[[nodiscard]] core::Result<std::string> parse_text(std::string_view text);

// "a,b, c" split at commas, blanks around the parts removed. An empty part is an error.
[[nodiscard]] core::Result<std::vector<std::string>> parse_list(std::string_view text);

// Text that the parsers above read back as the same value, in the largest unit that divides it.
[[nodiscard]] std::string format_duration(core::Duration duration);
[[nodiscard]] std::string format_number(double number);
[[nodiscard]] std::string format_bytes(double bytes);

// "did you mean max_replicas?" if one of the names is close to what was written, else "".
[[nodiscard]] std::string suggestion(std::string_view written, std::span<const std::string_view> names);
// "a, b or c".
[[nodiscard]] std::string choices(std::span<const std::string_view> names);

// Text from outside between quotes on one line: control characters become '?', and what is long is cut.
[[nodiscard]] std::string quote(std::string_view text);

}  // namespace penstock::options
