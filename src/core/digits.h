// Digits, decimal and hexadecimal, whatever the locale.
#pragma once

namespace penstock::core {

[[nodiscard]] constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }

// The value of a digit in either case; below 0: it is none.
[[nodiscard]] constexpr int hex_digit(char c) {
  if (is_digit(c)) return c - '0';
  const char lower = static_cast<char>(c | 0x20);
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

}  // namespace penstock::core
