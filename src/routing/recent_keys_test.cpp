#include "routing/recent_keys.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <list>

#include "core/random.h"

namespace penstock::routing {
namespace {

TEST(RecentKeys, TheLeastRecentlyUsedKeyIsTheOldest) {
  RecentKeys keys;
  for (const std::uint64_t key : {1, 2, 3}) keys.insert(key);
  keys.touch(keys.find(1));
  EXPECT_EQ(keys.key(keys.oldest()), 2U);
  keys.erase(keys.oldest());
  EXPECT_EQ(keys.find(2), RecentKeys::kNone);
  EXPECT_EQ(keys.key(keys.oldest()), 3U);
}

TEST(RecentKeys, AClearedSetAcceptsKeys) {
  RecentKeys keys;
  for (std::uint64_t key = 0; key < 100; ++key) keys.insert(key);
  keys.clear();
  EXPECT_EQ(keys.size(), 0U);
  EXPECT_EQ(keys.oldest(), RecentKeys::kNone);
  EXPECT_EQ(keys.find(5), RecentKeys::kNone);
  keys.insert(5, 7);
  EXPECT_EQ(keys.note(keys.find(5)), 7U);
}

TEST(RecentKeys, AgreesWithAListUnderRandomCalls) {
  core::RandomStream random{1};
  RecentKeys keys;
  std::list<std::uint64_t> list;  // Oldest first.
  for (int i = 0; i < 20'000; ++i) {
    const std::uint64_t key = random.below(300);
    const auto at = std::find(list.begin(), list.end(), key);
    const std::uint32_t node = keys.find(key);
    ASSERT_EQ(node == RecentKeys::kNone, at == list.end());
    if (at != list.end()) list.erase(at);
    switch (random.below(3)) {
      case 0:
        if (node != RecentKeys::kNone) keys.erase(node);
        break;
      default: node == RecentKeys::kNone ? static_cast<void>(keys.insert(key)) : keys.touch(node); list.push_back(key);
    }
    ASSERT_EQ(keys.size(), list.size());
  }
  std::uint32_t node = keys.oldest();
  for (const std::uint64_t key : list) {
    ASSERT_EQ(keys.key(node), key);
    node = keys.newer(node);
  }
  EXPECT_EQ(node, RecentKeys::kNone);
}

}  // namespace
}  // namespace penstock::routing
