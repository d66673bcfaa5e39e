// Numbers in the units people read. No locale: the same value gives the same text everywhere.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace penstock::report {

[[nodiscard]] std::string format_count(std::uint64_t count);  // "8,819"
// "97.1 %". What is below 1 never rounds up to 100 %, and what is above 0 never down to 0 %.
[[nodiscard]] std::string format_share(double share);
[[nodiscard]] std::string format_milliseconds(double milliseconds);  // "214 ms", "1.42 s", "2,140 s"
[[nodiscard]] std::string format_seconds(double seconds);            // "50 ms", "45 s", "59 min 58 s", "2 h 5 min"
// Three significant digits, thousands as k and M: "0.42", "12.4", "41.2k".
[[nodiscard]] std::string format_quantity(double value);
[[nodiscard]] std::string format_replicas(std::uint32_t count);          // "1 replica", "3 replicas"
[[nodiscard]] std::string format_difference(double part, double whole);  // of part against whole: "+45 %", "−12 %"

// `text` with what could steer a terminal (control characters) or is not UTF-8 replaced by "?".
[[nodiscard]] std::string printable(std::string_view text);
// Printable text as text of HTML and SVG, also within quotes.
[[nodiscard]] std::string markup_escaped(std::string_view text);
// Columns that printable text takes, counting every code point as one.
[[nodiscard]] std::size_t display_width(std::string_view text);

}  // namespace penstock::report
