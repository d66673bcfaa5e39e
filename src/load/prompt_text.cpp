#include "load/prompt_text.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "api/prompt_keys.h"
#include "core/random.h"

namespace penstock::load {
namespace {

constexpr std::size_t kWords = 16'384;  // 14 bits of a hash select one.
constexpr std::size_t kWordBytes = api::kBytesPerToken;
using Word = std::array<char, kWordBytes>;

constexpr std::array<Word, kWords> make_words() {
  std::array<Word, kWords> words{};
  for (std::size_t i = 0; i < kWords; ++i) {
    words[i] = {' ', static_cast<char>('a' + i % 26), static_cast<char>('a' + i / 26 % 26),
                static_cast<char>('a' + i / 676)};
  }
  return words;
}
constexpr std::array<Word, kWords> kTable = make_words();
static_assert(kWords <= 26 * 26 * 26);

// Streams that share no words: block ids, and the unique part of a request.
enum class Purpose : std::uint64_t { kBlock = 1, kOwn = 2 };

std::uint64_t seed_of(std::uint64_t seed, Purpose purpose, std::uint64_t number) {
  return core::mix64(core::mix64(core::mix64(seed) + static_cast<std::uint64_t>(purpose)) + number);
}

}  // namespace

void append_text(std::string& out, std::uint64_t seed, std::uint32_t words) {
  const std::size_t begin = out.size();
  out.resize(begin + std::size_t{words} * kWordBytes);
  char* at = out.data() + begin;
  while (words > 0) {
    std::uint64_t bits = core::mix64(seed++);
    for (std::uint32_t i = std::min(words, 4U); i > 0; --i, --words, bits >>= 14, at += kWordBytes)
      std::memcpy(at, kTable[bits % kWords].data(), kWordBytes);
  }
}

void append_prompt(std::string& out, const RequestShape& shape, std::uint64_t seed, std::uint64_t number) {
  std::uint32_t left = shape.input_tokens;
  for (const std::uint32_t id : shape.blocks) {
    const std::uint32_t words = std::min(shape.block_tokens, left);
    append_text(out, seed_of(seed, Purpose::kBlock, id), words);
    left -= words;
  }
  append_text(out, seed_of(seed, Purpose::kOwn, number), left);
}

}  // namespace penstock::load
