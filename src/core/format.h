// Numbers as text for people. No locale: the same value gives the same text everywhere.
#pragma once

#include <cstdint>
#include <string>

namespace penstock::core {

[[nodiscard]] std::string format_count(std::uint64_t count);  // "8,819"
// "97.1 %". A share below 1 never rounds up to 100 %, and a share above 0 never down to 0 %.
[[nodiscard]] std::string format_share(double share);
// A goal with all its digits, and one decimal at least: "95.0 %", "99.99 %".
[[nodiscard]] std::string format_goal(double share);
// Three significant digits, thousands as k and M: "0.42", "12.4", "41.2k".
[[nodiscard]] std::string format_quantity(double value);
[[nodiscard]] std::string format_replicas(std::uint32_t count);  // "1 replica", "3 replicas"

}  // namespace penstock::core
