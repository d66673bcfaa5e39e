#include "routing/holders.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "core/random.h"

namespace penstock::routing {
namespace {

using Keys = std::vector<std::uint64_t>;

std::map<std::uint32_t, std::uint32_t> overlaps(Holders& holders, const Keys& keys) {
  std::map<std::uint32_t, std::uint32_t> found;
  for (const Holders::Overlap& overlap : holders.overlaps(keys)) found[overlap.slot] = overlap.keys;
  return found;
}

Keys numbered(std::uint64_t first, std::size_t count) {
  Keys keys;
  for (std::size_t i = 0; i < count; ++i) keys.push_back(first + i);
  return keys;
}

TEST(Holders, CountsTheLeadingKeysThatEachReplicaHolds) {
  Holders holders;
  for (const std::uint64_t key : {1, 2, 3}) holders.add(0, key);
  for (const std::uint64_t key : {1, 2}) holders.add(200, key);
  holders.add(2, 2);
  EXPECT_EQ(overlaps(holders, {1, 2, 3, 4}), (std::map<std::uint32_t, std::uint32_t>{{0, 3}, {200, 2}}));
}

TEST(Holders, APromptWithAnUnknownFirstKeyHasNoHolders) {
  Holders holders;
  holders.add(0, 2);
  EXPECT_TRUE(overlaps(holders, {1, 2}).empty());
  EXPECT_TRUE(overlaps(holders, {}).empty());
}

TEST(Holders, FindsEveryDepthOfALongPrompt) {
  for (std::size_t depth = 1; depth <= 220; ++depth) {
    Holders holders;
    for (const std::uint64_t key : numbered(1, depth)) holders.add(3, key);
    for (const std::uint64_t key : numbered(1, 220)) holders.add(4, key);
    ASSERT_EQ(overlaps(holders, numbered(1, 220))[3], depth);
    ASSERT_EQ(overlaps(holders, numbered(1, 220))[4], 220U);
  }
}

TEST(Holders, AKeyWithoutHoldersIsRemoved) {
  Holders holders;
  for (std::uint32_t slot = 0; slot < 130; ++slot) holders.add(slot, 7);
  holders.add(5, 7);
  for (std::uint32_t slot = 0; slot < 129; ++slot) holders.drop(slot, 7);
  holders.drop(5, 7);
  EXPECT_EQ(overlaps(holders, {7}), (std::map<std::uint32_t, std::uint32_t>{{129, 1}}));
  holders.drop(129, 7);
  holders.drop(1000, 7);
  EXPECT_EQ(holders.keys(), 0U);
}

// Prefixes of random trees, as caches hold them: each holder of a key also holds the previous key.
TEST(Holders, AgreesWithALinearSearch) {
  core::RandomStream random{2};
  Holders holders;
  std::map<std::uint32_t, std::set<std::uint64_t>> model;
  const auto prompt = [&] {
    Keys keys;
    std::uint64_t node = random.below(8);
    const std::size_t depth = 1 + random.below(60);
    for (std::size_t i = 0; i < depth; ++i) {
      keys.push_back(node = core::mix64(node + (random.below(12) == 0 ? random.below(8) : 1)));
    }
    return keys;
  };
  for (int round = 0; round < 3'000; ++round) {
    const Keys keys = prompt();
    const auto slot = static_cast<std::uint32_t>(random.below(round < 1'500 ? 20 : 150));
    std::set<std::uint64_t>& held = model[slot];
    if (random.below(3) == 0) {
      // A cache loses a subtree: the key and all keys behind it.
      Keys lost(held.begin(), held.end());
      if (random.below(4) != 0) lost.clear();
      for (const std::uint64_t key : lost) holders.drop(slot, key);
      if (!lost.empty()) held.clear();
    } else {
      for (const std::uint64_t key : keys) {
        holders.add(slot, key);
        held.insert(key);
      }
    }
    const Keys keys_of_prompt = prompt();
    std::map<std::uint32_t, std::uint32_t> expected;
    for (const auto& [other, its] : model) {
      std::uint32_t count = 0;
      while (count < keys_of_prompt.size() && its.count(keys_of_prompt[count]) != 0) ++count;
      if (count > 0) expected[other] = count;
    }
    ASSERT_EQ(overlaps(holders, keys_of_prompt), expected) << round;
  }
  std::set<std::uint64_t> distinct;
  for (const auto& [slot, its] : model) distinct.insert(its.begin(), its.end());
  EXPECT_EQ(holders.keys(), distinct.size());
}

}  // namespace
}  // namespace penstock::routing
