#include "workload/block_numbers.h"

#include <gtest/gtest.h>

#include <map>

namespace penstock::workload {
namespace {

TEST(BlockNumbers, CountUpInOrderOfFirstAppearance) {
  BlockNumbers numbers;
  EXPECT_EQ(numbers.of(7), 0U);
  EXPECT_EQ(numbers.of(UINT64_MAX), 1U);
  EXPECT_EQ(numbers.fresh(), 2U);
  EXPECT_EQ(numbers.of(0), 3U);
  EXPECT_EQ(numbers.of(UINT64_MAX), 1U);
  EXPECT_EQ(numbers.of(7), 0U);
}

// Ids near the edge of the array go to the table first and are covered by the array later.
TEST(BlockNumbers, AgreeWithAMapForIdsOfAllSizes) {
  BlockNumbers numbers;
  std::map<std::uint64_t, std::uint32_t> expected;
  core::RandomStream random{11};
  for (int i = 0; i < 60'000; ++i) {
    const std::uint64_t id = random.next() >> random.below(64);
    const auto [place, is_new] = expected.try_emplace(id, static_cast<std::uint32_t>(expected.size()));
    ASSERT_EQ(numbers.of(id), place->second) << id;
  }
  for (const auto& [id, number] : expected) ASSERT_EQ(numbers.of(id), number);
}

}  // namespace
}  // namespace penstock::workload
