#include "engine/kv_cache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <list>
#include <map>

#include "core/random.h"

namespace penstock::engine {
namespace {

std::uint32_t hits(const KvCache& cache, const std::vector<BlockKey>& keys) {
  return cache.find_prefix(static_cast<std::uint32_t>(keys.size()), [&](std::uint32_t i) { return keys[i]; }).hits;
}

TEST(KvCache, AReleasedBlockIsFoundUntilTheSpaceIsNeeded) {
  KvCache cache{2, true};
  cache.release(cache.acquire(1));
  EXPECT_EQ(cache.active(), 0U);
  EXPECT_EQ(hits(cache, {1}), 1U);
  cache.allocate_private(2);
  EXPECT_EQ(hits(cache, {1}), 0U);
  EXPECT_EQ(cache.evictions(), 1U);
}

TEST(KvCache, AnUnusedHitTakesSpaceWhenItIsUsedAgain) {
  KvCache cache{3, true};
  const auto first = cache.acquire(1);
  cache.release(cache.acquire(2));
  const auto prefix = cache.find_prefix(2, [](std::uint32_t i) { return BlockKey{i + 1}; });
  EXPECT_EQ(prefix.hits, 2U);
  EXPECT_EQ(prefix.inactive_hits, 1U);
  cache.release(first);
}

TEST(KvCache, AHitEndsAtTheFirstBlockThatIsMissing) {
  KvCache cache{8, true};
  cache.release(cache.acquire(1));
  cache.release(cache.acquire(3));
  EXPECT_EQ(hits(cache, {1, 2, 3}), 1U);
}

TEST(KvCache, OnlyBlocksInUseOutliveADiscard) {
  KvCache cache{8, true};
  cache.listen();
  const auto used = cache.acquire(1);
  cache.release(cache.acquire(2));
  cache.allocate_private(3);
  cache.release_private(2, 1);
  cache.discard_unused();
  EXPECT_EQ(hits(cache, {1}), 1U);
  EXPECT_EQ(hits(cache, {2}), 0U);
  EXPECT_EQ(cache.active(), 1U);
  EXPECT_EQ(cache.events().back().key, 2U);
  EXPECT_FALSE(cache.events().back().stored);
  cache.release(used);
}

TEST(KvCache, WithoutCachingNothingIsKept) {
  KvCache cache{4, false};
  cache.release(cache.acquire(1));
  EXPECT_EQ(hits(cache, {1}), 0U);
  EXPECT_EQ(cache.evictions(), 0U);
}

TEST(KvCache, ABlockThatTwoUseCountsOnce) {
  KvCache cache{4, true};
  const auto one = cache.acquire(1), two = cache.acquire(1);
  EXPECT_EQ(one, two);
  EXPECT_EQ(cache.active(), 1U);
  cache.release(one);
  EXPECT_EQ(cache.active(), 1U);
  cache.release(two);
  EXPECT_EQ(cache.active(), 0U);
}

TEST(KvCache, ListenersReceiveSharedKeysOnly) {
  KvCache cache{2, true};
  cache.listen();
  cache.release(cache.acquire(5));
  cache.release(cache.acquire(private_key(1, 0)));
  cache.allocate_private(2);
  ASSERT_EQ(cache.events().size(), 2U);
  EXPECT_EQ(cache.events()[0].key, 5U);
  EXPECT_TRUE(cache.events()[0].stored);
  EXPECT_FALSE(cache.events()[1].stored);
}

// The same, written plainly: a list of unused keys by age and a map of used ones.
struct PlainCache {
  std::uint32_t total, used_private = 0;
  std::map<BlockKey, std::uint32_t> used;
  std::list<BlockKey> unused;  // 0: content without a name

  std::uint32_t active() const { return used_private + static_cast<std::uint32_t>(used.size()); }
  void make_room(std::uint32_t blocks) {
    while (total - active() - unused.size() < blocks) unused.pop_front();
  }
  bool holds(BlockKey key) const {
    return used.contains(key) || std::find(unused.begin(), unused.end(), key) != unused.end();
  }
  void acquire(BlockKey key) {
    if (const auto found = std::find(unused.begin(), unused.end(), key); found != unused.end()) {
      unused.erase(found);
    } else if (!used.contains(key)) {
      make_room(1);
    }
    ++used[key];
  }
  void release(BlockKey key) {
    if (--used[key] > 0) return;
    used.erase(key);
    unused.push_back(key);
  }
};

TEST(KvCache, AgreesWithASimpleModelUnderRandomUse) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    core::RandomStream random{seed};
    const auto total = static_cast<std::uint32_t>(4 + random.below(30));
    KvCache cache{total, true};
    PlainCache plain{total, 0, {}, {}};
    std::vector<std::pair<BlockKey, KvCache::Node>> held;
    for (int turn = 0; turn < 1500; ++turn) {
      const BlockKey key = 1 + random.below(60);
      switch (random.below(5)) {
        case 0:
        case 1:
          if (cache.available() == 0) break;
          held.emplace_back(key, cache.acquire(key));
          plain.acquire(key);
          break;
        case 2:
          if (held.empty()) break;
          std::swap(held[random.below(held.size())], held.back());
          cache.release(held.back().second);
          plain.release(held.back().first);
          held.pop_back();
          break;
        case 3:
          if (cache.available() < 2) break;
          cache.allocate_private(2);
          plain.make_room(2);
          plain.used_private += 2;
          break;
        case 4: {
          if (plain.used_private == 0) break;
          if (random.below(2) == 0) {
            plain.used_private -= 2;
            cache.release_private(1, 1);
            plain.unused.push_back(0);
          } else {
            plain.used_private -= 2;
            cache.release_private(0, 1);
            const bool known = plain.holds(key);
            cache.release_private_as(key);
            if (!known) plain.unused.push_back(key);
          }
          break;
        }
      }
      ASSERT_EQ(cache.active(), plain.active());
      for (BlockKey probe = 1; probe <= 60; ++probe) ASSERT_EQ(hits(cache, {probe}) == 1, plain.holds(probe)) << probe;
    }
  }
}

}  // namespace
}  // namespace penstock::engine
