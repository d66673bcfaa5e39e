// Numbers in the units people read. No locale: the same value gives the same text everywhere.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/format.h"
#include "signals/slo.h"

namespace penstock::report {

using core::format_count;
using core::format_goal;
using core::format_quantity;
using core::format_replicas;
using core::format_share;

[[nodiscard]] std::string format_milliseconds(double milliseconds);      // "214 ms", "1.42 s", "2,140 s"
[[nodiscard]] std::string format_seconds(double seconds);                // "50 ms", "45 s", "59 min 58 s", "2 h 5 min"
[[nodiscard]] std::string format_difference(double part, double whole);  // Part relative to whole: "+45 %", "−12 %"

// "TTFT 2 s and ITL 50 ms", or with the limit of the whole answer: "TTFT 2 s, ITL 50 ms and e2e 30 s".
[[nodiscard]] std::string format_limits(const signals::SloTarget& target);

// `text` with what could steer a terminal (control characters) or is not UTF-8 replaced by "?".
[[nodiscard]] std::string printable(std::string_view text);
// Columns that printable text takes, counting every code point as one.
[[nodiscard]] std::size_t display_width(std::string_view text);

}  // namespace penstock::report
