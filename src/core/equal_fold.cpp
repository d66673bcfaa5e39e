#include "core/equal_fold.h"

#include <algorithm>
#include <cstdint>

#include "core/byte_words.h"

namespace penstock::core {
namespace {

constexpr char lower_of(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c; }

}  // namespace

bool equal_fold(const char* left, const char* right, std::size_t size) {
  constexpr std::size_t kWord = sizeof(std::uint64_t);
  if (size < kWord)
    return std::equal(left, left + size, right, [](char l, char r) { return lower_of(l) == lower_of(r); });
  const auto same_at = [&](std::size_t at) {
    return lower_case(load_word(left + at)) == lower_case(load_word(right + at));
  };
  for (std::size_t at = 0; at + kWord < size; at += kWord)
    if (!same_at(at)) return false;
  return same_at(size - kWord);
}

}  // namespace penstock::core
