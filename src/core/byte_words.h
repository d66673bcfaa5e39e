// Searches in words of eight bytes.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

namespace penstock::core {

inline constexpr std::uint64_t kOneOfEachByte = 0x0101'0101'0101'0101, kTopBitOfEachByte = kOneOfEachByte << 7;
static_assert(std::endian::native == std::endian::little, "the first byte of a word is its lowest");

[[nodiscard]] inline std::uint64_t load_word(const char* at) {
  std::uint64_t word = 0;
  std::memcpy(&word, at, sizeof word);
  return word;
}

// Sets the top bit of the first byte that is `c`; later bytes may be marked incorrectly.
[[nodiscard]] constexpr std::uint64_t marks_of(std::uint64_t word, char c) {
  const std::uint64_t zeros = word ^ (kOneOfEachByte * static_cast<unsigned char>(c));
  return (zeros - kOneOfEachByte) & ~zeros & kTopBitOfEachByte;
}

// Number of bytes before the first one that is marked; there must be one.
[[nodiscard]] constexpr int bytes_before(std::uint64_t marks) { return std::countr_zero(marks) / 8; }

// Turns the letters of ASCII into lower case.
[[nodiscard]] constexpr std::uint64_t lower_case(std::uint64_t word) {
  const std::uint64_t low_bits = word & ~kTopBitOfEachByte;
  const std::uint64_t from_a = low_bits + kOneOfEachByte * (0x80 - 'A'),
                      behind_z = low_bits + kOneOfEachByte * (0x7f - 'Z');
  return word | (from_a & ~behind_z & ~word & kTopBitOfEachByte) >> 2;
}

}  // namespace penstock::core
