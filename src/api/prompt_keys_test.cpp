#include "api/prompt_keys.h"

#include <gtest/gtest.h>

#include <set>

#include "core/random.h"

namespace penstock::api {
namespace {

std::vector<std::uint64_t> keys_of(std::string_view text, std::uint32_t block_bytes) {
  std::vector<std::uint64_t> keys{1, 2, 3};
  prompt_keys(text, block_bytes, keys);
  return keys;
}

std::string some_text(std::size_t bytes) {
  core::RandomStream random{5};
  std::string text;
  while (text.size() < bytes) text += static_cast<char>('a' + random.below(26));
  return text;
}

TEST(PromptKeys, NameWholeBlocksOnly) {
  EXPECT_TRUE(keys_of("", 8).empty());
  EXPECT_TRUE(keys_of("1234567", 8).empty());
  EXPECT_EQ(keys_of("12345678", 8).size(), 1U);
  EXPECT_EQ(keys_of(std::string(1023, 'x'), 256).size(), 3U);
  EXPECT_EQ(keys_of(std::string(1024, 'x'), 256).size(), 4U);
}

TEST(PromptKeys, AreEqualAsFarAsTheTextsAre) {
  const std::string text = some_text(4096);
  const auto keys = keys_of(text, 64);
  for (const std::size_t changed :
       {std::size_t{0}, std::size_t{63}, std::size_t{64}, std::size_t{2000}, std::size_t{4095}}) {
    std::string other = text;
    other[changed] ^= 1;
    const auto others = keys_of(other, 64);
    for (std::size_t i = 0; i < keys.size(); ++i) EXPECT_EQ(keys[i] == others[i], i < changed / 64) << i;
  }
}

TEST(PromptKeys, DifferForTheSameBlockInAnotherPlace) {
  const auto keys = keys_of(std::string(64 * 100, 'x'), 64);
  EXPECT_EQ(std::set<std::uint64_t>(keys.begin(), keys.end()).size(), 100U);
}

TEST(PromptKeys, LeaveTheTopBitFree) {
  for (const std::uint64_t key : keys_of(some_text(64 * 1000), 64)) EXPECT_EQ(key >> 63, 0U);
}

// Keys are not stored, but several gateways exchange them.
TEST(PromptKeys, AreTheSameEverywhere) {
  EXPECT_EQ(keys_of("penstock penstock", 8), (std::vector<std::uint64_t>{250974031979524772, 6357871891686535278}));
}

}  // namespace
}  // namespace penstock::api
