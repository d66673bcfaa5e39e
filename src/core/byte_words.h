// Searches in words of eight bytes and, where the processor has them, of sixteen.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

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

// Whether all bytes are characters of ASCII from the space to the tilde.
[[nodiscard]] constexpr bool is_visible_ascii(std::uint64_t word) {
  const std::uint64_t is_control = (word - kOneOfEachByte * ' ') & ~word, is_delete = marks_of(word, 0x7f);
  return ((is_control | is_delete | word) & kTopBitOfEachByte) == 0;
}

// Turns the letters of ASCII into lower case.
[[nodiscard]] constexpr std::uint64_t lower_case(std::uint64_t word) {
  const std::uint64_t low_bits = word & ~kTopBitOfEachByte;
  const std::uint64_t from_a = low_bits + kOneOfEachByte * (0x80 - 'A'),
                      behind_z = low_bits + kOneOfEachByte * (0x7f - 'Z');
  return word | (from_a & ~behind_z & ~word & kTopBitOfEachByte) >> 2;
}

// Returns the first byte that is one of the two, or the end.
[[nodiscard]] inline const char* find_either(const char* at, const char* end, char one, char other) {
#ifdef __SSE2__
  constexpr std::ptrdiff_t kBlock = 16;
  for (; end - at >= kBlock; at += kBlock) {
    __m128i block;
    std::memcpy(&block, at, sizeof block);
    const __m128i found =
        _mm_or_si128(_mm_cmpeq_epi8(block, _mm_set1_epi8(one)), _mm_cmpeq_epi8(block, _mm_set1_epi8(other)));
    if (const auto bits = static_cast<unsigned>(_mm_movemask_epi8(found)); bits != 0)
      return at + std::countr_zero(bits);
  }
#endif
  constexpr std::ptrdiff_t kWord = sizeof(std::uint64_t);
  for (; end - at >= kWord; at += kWord) {
    const std::uint64_t word = load_word(at);
    if (const std::uint64_t marks = marks_of(word, one) | marks_of(word, other); marks != 0)
      return at + bytes_before(marks);
  }
  while (at < end && *at != one && *at != other) ++at;
  return at;
}

}  // namespace penstock::core
