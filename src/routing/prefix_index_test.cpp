#include "routing/prefix_index.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "core/random.h"

namespace penstock::routing {
namespace {

using Keys = std::vector<std::uint64_t>;

std::vector<std::uint32_t> overlaps(PrefixIndex& index, const Keys& keys, std::size_t slots) {
  std::vector<std::uint32_t> overlap(slots);
  index.overlaps(std::span<const std::uint64_t>{keys}, std::span{overlap});
  return overlap;
}

TEST(PrefixIndex, CountsTheLeadingKeysThatEachReplicaHolds) {
  PrefixIndex index;
  for (const std::uint64_t key : {1, 2, 3}) index.stored(0, key);
  for (const std::uint64_t key : {1, 2}) index.stored(1, key);
  index.stored(2, 2);
  EXPECT_EQ(overlaps(index, {1, 2, 3, 4}, 4), (std::vector<std::uint32_t>{3, 2, 0, 0}));
}

TEST(PrefixIndex, AGapEndsThePrefix) {
  PrefixIndex index;
  index.stored(0, 1);
  index.stored(0, 3);
  EXPECT_EQ(overlaps(index, {1, 2, 3}, 1), (std::vector<std::uint32_t>{1}));
}

TEST(PrefixIndex, RemovedKeysAndForgottenReplicasLeaveNothingBehind) {
  PrefixIndex index;
  index.stored(0, 1);
  index.stored(1, 1);
  index.stored(1, 2);
  index.removed(0, 1);
  index.removed(0, 99);
  EXPECT_EQ(overlaps(index, {1, 2}, 2), (std::vector<std::uint32_t>{0, 2}));
  index.forget(1);
  EXPECT_EQ(index.keys(), 0U);
}

TEST(PrefixIndex, AgreesWithSetsUnderRandomCalls) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    core::RandomStream random{seed};
    const std::uint32_t slots = seed % 2 == 0 ? 10 : 150;  // 150 slots exceed the first set of 64.
    PrefixIndex index{8};
    std::map<std::uint64_t, std::set<std::uint32_t>> plain;
    for (int turn = 0; turn < 3000; ++turn) {
      const auto slot = static_cast<std::uint32_t>(random.below(slots));
      const std::uint64_t key = random.below(80);
      if (random.below(500) == 0) {
        index.forget(slot);
        for (auto& [held, by] : plain) by.erase(slot);
      } else if (random.below(3) == 0) {
        index.removed(slot, key);
        plain[key].erase(slot);
      } else {
        index.stored(slot, key);
        plain[key].insert(slot);
      }
      if (turn % 50 != 0) continue;
      const Keys keys = {key, (key + 1) % 80, (key + 2) % 80, (key + 3) % 80};
      std::vector<std::uint32_t> expected(slots);
      for (std::uint32_t candidate = 0; candidate < slots; ++candidate)
        while (expected[candidate] < keys.size() && plain[keys[expected[candidate]]].contains(candidate))
          ++expected[candidate];
      ASSERT_EQ(overlaps(index, keys, slots), expected);
    }
  }
}

}  // namespace
}  // namespace penstock::routing
