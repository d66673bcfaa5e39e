// The grammar of single values, which is the same in flags and in YAML.
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

// Errors of these parsers have no location; the caller adds it. The message contains the rejected text.

// Accepts decimal digits. A leading zero is rejected, because many tools read 010 as eight.
[[nodiscard]] core::Result<std::uint64_t> parse_count(std::string_view text, std::uint64_t low, std::uint64_t high);
// Accepts a finite decimal number such as "1.5" or "2e9".
[[nodiscard]] core::Result<double> parse_number(std::string_view text, double low, double high);
// Accepts "0.3" or "30%", in [0, 1].
[[nodiscard]] core::Result<double> parse_share(std::string_view text);
// Accepts "120s", "50ms", "1h30m" or "0", with the units ns, us, ms, s, m, h and d, up to ten years.
[[nodiscard]] core::Result<core::Duration> parse_duration(std::string_view text);
// Accepts "131072", "128KiB" or "2.5GB": bytes, > 0. For a rate the unit may be followed by "/s".
[[nodiscard]] core::Result<double> parse_bytes(std::string_view text, bool per_second);
// Accepts "true" or "false"; "yes" and "on" are rejected, since versions of YAML disagree on them.
[[nodiscard]] core::Result<bool> parse_boolean(std::string_view text);

struct CountRange {
  std::uint32_t first = 0, last = 0;  // Both are included; 0..0 means none.
  [[nodiscard]] bool empty() const { return last == 0; }
};
// Accepts "1..8", or "4" for 4..4, with 1 <= first <= last <= high.
[[nodiscard]] core::Result<CountRange> parse_range(std::string_view text, std::uint32_t high);

// Accepts texts of 1 to 4096 bytes.
[[nodiscard]] core::Result<std::string> parse_text(std::string_view text);

// Accepts 1 to `bytes_max` visible ASCII characters, as header fields and names in metrics need them.
[[nodiscard]] core::Result<std::string> parse_word(std::string_view text, std::size_t bytes_max);

// Splits "a,b, c" at commas and removes blanks around the parts. An empty part is an error.
[[nodiscard]] core::Result<std::vector<std::string>> parse_list(std::string_view text);

// These return text that the parsers above read back as the same value, in the largest unit that divides it.
[[nodiscard]] std::string format_duration(core::Duration duration);
[[nodiscard]] std::string format_number(double number);
[[nodiscard]] std::string format_bytes(double bytes);

// Whether two names have the same words in any order, as log.access and access_log.
[[nodiscard]] bool has_same_words(std::string_view a, std::string_view b);
// Returns "did you mean max_replicas?" if one of the names has the same words or is similar to what was written, else
// "".
[[nodiscard]] std::string suggestion(std::string_view written, std::span<const std::string_view> names);
// Returns "a, b or c".
[[nodiscard]] std::string choices(std::span<const std::string_view> names);

// Returns external text in quotes on one line: control characters become '?', and long text is cut.
[[nodiscard]] std::string quote(std::string_view text);

}  // namespace penstock::options
