// A line of the log, without its time and level.
#pragma once

#include <span>
#include <string>

#include "logging/log.h"

namespace penstock::logging {

enum class Format : std::uint8_t { kText, kJson };

// Longer values are cut, and end with an ellipsis.
inline constexpr std::size_t kValueBytesMax = 2048;

// kText: `retry request_id=r-1 cause="connection refused"`. A value that is not plain visible ASCII stands in quotes,
// where \" \\ \n \r \t and \xHH stand for what would end the line, steer a terminal or is not UTF-8.
// kJson: `"event":"retry","request_id":"r-1","cause":"connection refused"`, the members of an object. Bytes that are
// not UTF-8 become U+FFFD.
[[nodiscard]] std::string format_line(Format format, Event event, std::span<const Field> fields);

}  // namespace penstock::logging
