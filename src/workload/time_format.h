// How a trace writes the arrival of a request: a number in a unit, or a date and time.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "core/result.h"
#include "core/time.h"
#include "workload/fields.h"

namespace penstock::workload {

enum class TimeFormat : std::uint8_t {
  kAuto,  // From the name of the column and its first values.
  kSeconds,
  kMilliseconds,
  kMicroseconds,
  kNanoseconds,
  kIso,         // A date that begins with the year.
  kDayFirst,    // 18/11/2026 09:00:00
  kMonthFirst,  // 11/18/2026 09:00:00
};
inline constexpr std::size_t kTimeFormats = 8;
[[nodiscard]] std::string_view to_string(TimeFormat format);  // "auto", "s", "ms", "us", "ns", "iso", "dd/mm/yyyy", ….

// As time since 1970 if the text is a date or counts from there, otherwise since the zero of the trace. Not for kAuto.
[[nodiscard]] Parsed<core::Duration> parse_trace_time(std::string_view column, std::string_view text,
                                                      TimeFormat format);

// The unit at the end of a column's name, such as "arrival_ms" or "Time (s)"; kAuto without one.
[[nodiscard]] TimeFormat unit_in_name(std::string_view column);

struct TimeGuess {
  TimeFormat format = TimeFormat::kSeconds;
  std::string doubt;  // Why a person must confirm the format; empty if the values leave no doubt.
};
// Numbers of the magnitude of times since 1970 tell their unit, and a fraction tells seconds. Other numbers may be of
// any unit. Dates tell their order if a day is above 12.
[[nodiscard]] TimeGuess guess_time_format(std::span<const std::string_view> texts);
// Of numbers that a trace format documents as milliseconds. Fractions, times since 1970 in another unit, and whole
// numbers of 1,000 requests/s and more leave a doubt if another unit gives the more usual rate.
[[nodiscard]] TimeGuess confirm_milliseconds(std::span<const std::string_view> texts);

// The error that names `what` has these times, and the flag that confirms the guess; for a guess with a doubt.
[[nodiscard]] core::Error doubtful_times(const std::string& place, std::string_view what, const TimeGuess& guess);

}  // namespace penstock::workload
