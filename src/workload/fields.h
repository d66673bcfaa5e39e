// The text of one field of a trace, and the value in it. What is wrong is said without the place, which the caller
// knows.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>

#include "core/time.h"

namespace penstock::workload {

template <class T>
using Parsed = tl::expected<T, std::string>;  // the error is what is wrong: "input_tokens is blank"

[[nodiscard]] inline tl::unexpected<std::string> wrong(std::string what) {
  return tl::make_unexpected(std::move(what));
}

inline constexpr std::uint32_t kTokensMax = 100'000'000;
// Times are nanoseconds in 63 bits; this is the year 2255 for those that count from 1970.
inline constexpr std::int64_t kTimeMaxS = 9'000'000'000;

enum class TimeUnit : std::uint8_t { kSeconds, kMilliseconds, kMicroseconds };

// A whole number from `min` to kTokensMax; "12.0" is one, since tables write it so once a column has blanks.
[[nodiscard]] Parsed<std::uint32_t> parse_tokens(std::string_view column, std::string_view text, std::uint32_t min = 1);

// A number of `unit`s, zero or more, exact to the nanosecond (a double would lose that after 104 days). Digits below a
// nanosecond are cut.
[[nodiscard]] Parsed<core::Duration> parse_time(std::string_view column, std::string_view text, TimeUnit unit);

// "2024-05-10 00:00:00.009930+00:00" as time since 1970: a date and a time of day, up to nine digits of fraction, a
// zone ("Z", "+hh:mm" or none, which is UTC). "T" may stand for the space.
[[nodiscard]] Parsed<core::Duration> parse_date_time(std::string_view column, std::string_view text);
[[nodiscard]] bool has_zone(std::string_view date_time);

// Text of a trace for a message: in quotes, cut, on one line, without control characters.
[[nodiscard]] std::string quoted_cut(std::string_view text);
// A name of a column for a message: the same without quotes.
[[nodiscard]] std::string shown(std::string_view text);

[[nodiscard]] std::string_view trimmed(std::string_view text);  // of spaces and tabs

}  // namespace penstock::workload
