// Timestamps and offsets of civil time, as the calendar of schedules needs them.
#pragma once

#include <string>
#include <string_view>

#include "core/result.h"
#include "core/time.h"

namespace penstock::options {

// Errors of the parsers have no place; the caller knows it. What was seen is part of the message.

// RFC 3339 in UTC, "2024-05-13T08:00:00Z" with a fraction of up to nine digits, from 1970 to 2199; since 1970 began.
[[nodiscard]] core::Result<core::Duration> parse_timestamp(std::string_view text);
[[nodiscard]] std::string format_timestamp(core::Duration since_1970);

// "+02:00", "-3h30m", "2h" or "Z": whole minutes, from -12:00 to +14:00.
[[nodiscard]] core::Result<core::Duration> parse_utc_offset(std::string_view text);
[[nodiscard]] std::string format_utc_offset(core::Duration offset);

}  // namespace penstock::options
