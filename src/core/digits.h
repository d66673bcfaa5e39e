// Whole numbers, and decimal and hexadecimal digits, independent of the locale.
#pragma once

namespace penstock::core {

// A double holds every whole number up to this one, 2^53.
inline constexpr double kWholeMax = 9'007'199'254'740'992.0;

[[nodiscard]] constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Returns the value of a digit in either case, or a negative number for other characters.
[[nodiscard]] constexpr int hex_digit(char c) {
  if (is_digit(c)) return c - '0';
  const char lower = static_cast<char>(c | 0x20);
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

}  // namespace penstock::core
