// Parsers of timestamps and UTC offsets, which schedules use.
#pragma once

#include <string>
#include <string_view>

#include "core/result.h"
#include "core/time.h"

namespace penstock::options {

// Errors have no location; the caller adds it. The message contains the rejected text.

// Accepts RFC 3339 in UTC, "2024-05-13T08:00:00Z" with a fraction of up to nine digits, from 1970 to 2199. Returns the
// time since the start of 1970.
[[nodiscard]] core::Result<core::Duration> parse_timestamp(std::string_view text);
[[nodiscard]] std::string format_timestamp(core::Duration since_1970);

// Accepts "+02:00", "-3h30m", "2h" or "Z" in whole minutes, from -12:00 to +14:00.
[[nodiscard]] core::Result<core::Duration> parse_utc_offset(std::string_view text);
[[nodiscard]] std::string format_utc_offset(core::Duration offset);

}  // namespace penstock::options
