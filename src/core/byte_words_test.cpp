#include "core/byte_words.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "core/append.h"
#include "core/name_filter.h"

namespace penstock::core {
namespace {

std::uint64_t word_of(char first, char second) {
  const char bytes[8] = {'a', 'b', first, 'c', second, 'd', 'e', 'f'};
  return load_word(bytes);
}

TEST(ByteWords, FindsTheFirstOfEachByte) {
  for (int wanted = 0; wanted < 256; ++wanted) {
    const auto c = static_cast<char>(wanted);
    for (int other = 0; other < 256; ++other) {
      if (other == wanted || (wanted >= 'a' && wanted <= 'f')) continue;
      const auto o = static_cast<char>(other);
      EXPECT_EQ(bytes_before(marks_of(word_of(c, o), c)), 2);
      EXPECT_EQ(bytes_before(marks_of(word_of(o, c), c)), 4);
      EXPECT_EQ(marks_of(word_of(o, o), c), 0U);
    }
  }
}

TEST(ByteWords, FindsEitherOfTwoBytesAtEachPlace) {
  for (std::size_t size = 0; size < 70; ++size) {
    const std::string plain(size, 'x');
    EXPECT_EQ(find_either(plain.data(), plain.data() + size, '"', '\\'), plain.data() + size);
    for (std::size_t at = 0; at < size; ++at)
      for (const char c : {'"', '\\'}) {
        std::string text = plain;
        text[at] = c;
        text[size - 1] = '"';
        EXPECT_EQ(find_either(text.data(), text.data() + size, '"', '\\'), text.data() + at);
        EXPECT_EQ(find_either(text.data(), text.data() + at, '"', '\\'), text.data() + at);
      }
  }
}

TEST(ByteWords, OnlyLettersOfAsciiChangeTheirCase) {
  for (int i = 0; i < 256; ++i) {
    const auto c = static_cast<char>(i);
    const char low = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
    EXPECT_EQ(lower_case(word_of(c, c)), word_of(low, low)) << i;
    EXPECT_EQ(lower_case(word_of('\xff', c)), word_of('\xff', low)) << i;
  }
}

TEST(ByteWords, TellsVisibleTextFromOtherBytes) {
  for (int i = 0; i < 256; ++i) {
    const bool is_visible = i >= ' ' && i < 0x7f;
    EXPECT_EQ(is_visible_ascii(word_of(static_cast<char>(i), ' ')), is_visible) << i;
    EXPECT_EQ(is_visible_ascii(word_of('~', static_cast<char>(i))), is_visible) << i;
  }
}

TEST(Append, AppendsAllPieces) {
  std::string out = "a";
  append_all(out, {});
  append_all(out, {"bc", "", std::string_view{}, "d"});
  EXPECT_EQ(out, "abcd");
}

TEST(NameFilter, HasItsNamesInAnyCase) {
  constexpr std::array<std::string_view, 3> kNames{"cookie", "x-long-name-of-more-than-thirty-bytes", "b3"};
  constexpr NameFilter kFilter{kNames};
  for (const std::string_view name : kNames) EXPECT_TRUE(kFilter.may_have(name));
  EXPECT_TRUE(kFilter.may_have("COOKIE"));
  for (const char* other : {"", "c", "cookies", "host", "x-long", "b"}) EXPECT_FALSE(kFilter.may_have(other)) << other;
}

}  // namespace
}  // namespace penstock::core
