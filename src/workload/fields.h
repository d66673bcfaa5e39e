// Parsers for the fields of a trace. Errors do not contain the location, which the caller adds.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>

#include "core/time.h"

namespace penstock::workload {

template <class T>
// The error describes the problem, for example "input_tokens is blank".
using Parsed = tl::expected<T, std::string>;

[[nodiscard]] inline tl::unexpected<std::string> wrong(std::string what) {
  return tl::make_unexpected(std::move(what));
}

inline constexpr std::uint32_t kTokensMax = 100'000'000;
// Times are 63-bit nanoseconds; the limit is the year 2255 for times since 1970.
inline constexpr std::int64_t kTimeMaxS = 9'000'000'000;

enum class TimeUnit : std::uint8_t { kSeconds, kMilliseconds, kMicroseconds, kNanoseconds };
enum class DateOrder : std::uint8_t { kYearFirst, kDayFirst, kMonthFirst };

// A whole number from `min` to kTokensMax. "12.0" is accepted, because tools write it for columns with blanks.
[[nodiscard]] Parsed<std::uint32_t> parse_tokens(std::string_view column, std::string_view text, std::uint32_t min = 1);

// A non-negative number of `unit`s, exact to the nanosecond, which a double is not after 104 days. Digits below a
// nanosecond are truncated.
[[nodiscard]] Parsed<core::Duration> parse_time(std::string_view column, std::string_view text, TimeUnit unit);

// "2024-05-10 00:00:00.009930+00:00" as time since 1970: a date with `-`, `/` or `.`, a time of day with up to nine
// fractional digits, and a zone ("Z", "UTC", "+hh:mm", "+hh", or none for UTC). "T" or a comma may replace the space,
// seconds may be missing, and "AM" or "PM" may follow the time.
[[nodiscard]] Parsed<core::Duration> parse_date_time(std::string_view column, std::string_view text,
                                                     DateOrder order = DateOrder::kYearFirst);
[[nodiscard]] bool has_zone(std::string_view date_time);

// Text of a trace for a message: quoted, truncated, on one line, without control characters.
[[nodiscard]] std::string quoted_text(std::string_view text);
// The same without quotes, for column names.
[[nodiscard]] std::string printable(std::string_view text);

[[nodiscard]] std::string_view trimmed(std::string_view text);  // Removes spaces and tabs.

}  // namespace penstock::workload
