#include "simulation/cached_prompts.h"

#include <gtest/gtest.h>

#include "simulation/world_testing.h"

namespace penstock::simulation {
namespace {

using Blocks = std::vector<std::uint32_t>;

std::vector<PoolSpec> pools(std::initializer_list<std::uint32_t> replicas, std::uint32_t kv_blocks) {
  std::vector<PoolSpec> made;
  for (const std::uint32_t count : replicas) {
    made.push_back(testing::pool(count));
    made.back().engine.kv_blocks = kv_blocks;
  }
  return made;
}

// As "replica:first block-last block", the least recently used first.
std::string placed(const std::vector<std::pair<std::uint32_t, Blocks>>& prompts, const std::vector<PoolSpec>& fleet) {
  std::vector<EarlierPrompt> earlier;
  for (const auto& [pool, blocks] : prompts) earlier.push_back({pool, blocks});
  std::string text;
  for (const CachedPrompt& each : place_prompts(earlier, fleet))
    text += (text.empty() ? "" : " ") + std::to_string(each.prompt.pool) + "/" + std::to_string(each.replica) + ":" +
            std::to_string(each.prompt.block_ids.front()) + "-" + std::to_string(each.prompt.block_ids.back());
  return text;
}

TEST(CachedPrompts, TheLatestTurnOfASessionHoldsTheEarlierOnes) {
  EXPECT_EQ(placed({{0, {1, 2}}, {0, {1, 2, 3, 4}}}, pools({2}, 100)), "0/0:1-4");
}

TEST(CachedPrompts, SessionsAreDistributedByTheBlocksThatReplicasHold) {
  EXPECT_EQ(placed({{0, {1}}, {0, {5, 6}}, {0, {10, 11, 12}}}, pools({2}, 100)), "0/1:1-1 0/1:5-6 0/0:10-12");
}

TEST(CachedPrompts, ABranchOfASessionJoinsIt) {
  // The later one begins with most of the earlier one and goes on otherwise.
  EXPECT_EQ(placed({{0, {1, 2, 3, 4}}, {0, {20}}, {0, {1, 2, 3, 9}}}, pools({2}, 100)), "0/0:1-4 0/1:20-20 0/0:1-9");
  // A system prompt that all sessions share does not attract them all.
  EXPECT_EQ(placed({{0, {1, 20, 21}}, {0, {1, 30, 31}}}, pools({2}, 100)), "0/1:1-21 0/0:1-31");
}

TEST(CachedPrompts, WhatIsOlderThanTheCachesHoldIsLeftOut) {
  EXPECT_EQ(placed({{0, {1, 2}}, {0, {3, 4, 5}}, {0, {6, 7, 8}}}, pools({1}, 5)), "0/0:6-8");
  EXPECT_EQ(placed({{0, {1, 2}}}, pools({0}, 5)), "");
  EXPECT_EQ(placed({{0, {}}}, pools({1}, 5)), "");
}

TEST(CachedPrompts, EachPoolHoldsItsOwn) {
  EXPECT_EQ(placed({{0, {1, 2}}, {1, {1, 2}}}, pools({1, 2}, 100)), "0/0:1-2 1/0:1-2");
  // A full pool does not end the search for the other one.
  EXPECT_EQ(placed({{1, {1}}, {0, {2, 3}}, {0, {4, 5, 6}}}, pools({1, 1}, 4)), "1/0:1-1 0/0:4-6");
}

}  // namespace
}  // namespace penstock::simulation
