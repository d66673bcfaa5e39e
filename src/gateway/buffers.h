// Text buffers that request handlers reuse.
#pragma once

#include <array>
#include <charconv>
#include <cstdint>
#include <string>

namespace penstock::gateway {

inline void free_memory(std::string& text) {
  if (text.capacity() > sizeof(std::string)) std::string{}.swap(text);
}

inline constexpr std::size_t kKeptBytesMax = 4096;  // Memory of a buffer that is kept for the next request.

// Clears the text, and keeps its memory if the next request will need a similar amount.
inline void clear_for_reuse(std::string& text) {
  text.clear();
  if (text.capacity() > kKeptBytesMax) free_memory(text);
}

inline void append_number(std::string& out, std::uint64_t number) {
  std::array<char, 20> digits{};
  out.append(digits.data(), std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr);
}

}  // namespace penstock::gateway
