#include "workload/transform.h"

#include <gtest/gtest.h>

#include "core/random.h"
#include "workload/statistics.h"
#include "workload/synthetic.h"
#include "workload/workload_testing.h"

namespace penstock::workload {
namespace {

using core::from_seconds;
using testing::ids_of;
using testing::same;
using testing::workload_of;
using Ids = std::vector<std::uint32_t>;

TEST(CutWindow, KeepsWhatArrivesInTheHalfOpenWindowAndCountsFromItsStart) {
  const Workload workload = workload_of({{0.0, 10, 1, {1}}, {1.0, 20, 2, {1, 2}}, {1.5, 30, 3, {}}, {2.0, 40, 4, {7}}});
  const auto cut = crop_window(workload, from_seconds(1.0), from_seconds(2.0));
  ASSERT_TRUE(cut.has_value());
  EXPECT_EQ(testing::arrivals_s(*cut), (std::vector<double>{0.0, 0.5}));
  EXPECT_EQ(cut->requests[0].input_tokens, 20U);
  EXPECT_EQ(ids_of(*cut, 0), (Ids{1, 2}));
  EXPECT_EQ(ids_of(*cut, 1), Ids{});
  EXPECT_EQ(cut->block_ids.size(), 2U);
}

TEST(CutWindow, WithoutAnEndGoesToTheLastRequest) {
  const auto cut = crop_window(workload_of({{0.0}, {1.0}, {9.0}}), from_seconds(0.5), std::nullopt);
  ASSERT_TRUE(cut.has_value());
  EXPECT_EQ(testing::arrivals_s(*cut), (std::vector<double>{0.5, 8.5}));
}

TEST(CutWindow, EmptyWindowsAreErrors) {
  const Workload workload = workload_of({{0.0}, {1.0}});
  EXPECT_EQ(crop_window(workload, from_seconds(2.0), std::nullopt).error().message(),
            "rows: no request arrives between 2 s and the end; the last one arrives at 1 s");
  EXPECT_FALSE(crop_window(workload, from_seconds(0.5), from_seconds(0.5)).has_value());
  EXPECT_FALSE(crop_window(workload, from_seconds(1.0), from_seconds(0.0)).has_value());
  EXPECT_FALSE(crop_window(workload, from_seconds(-1.0), std::nullopt).has_value());
}

TEST(Merge, JoinsTenantsByNameAndKeepsPrefixesAndSessionsApart) {
  Workload first = workload_of({{0.0, 600, 1, {0, 1}, 4}, {2.0, 600, 1, {0, 2}, 5, 1}});
  first.tenants = {"a", "b"};
  first.skipped_rows = 2;
  Workload second = workload_of({{1.0, 600, 1, {0, 1}, 0}, {2.0, 9, 1, {}, kNoSession, 1}});
  second.tenants = {"b", "c"};
  second.skipped_rows = 1;
  second.name = "more";
  const auto merged = merge({first, second});
  ASSERT_TRUE(merged.has_value());
  EXPECT_EQ(merged->name, "rows+more");
  EXPECT_EQ(merged->tenants, (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_EQ(merged->skipped_rows, 3U);
  EXPECT_EQ(testing::arrivals_s(*merged), (std::vector<double>{0.0, 1.0, 2.0, 2.0}));
  EXPECT_EQ(ids_of(*merged, 0), (Ids{0, 1}));
  EXPECT_EQ(ids_of(*merged, 1), (Ids{3, 4}));
  EXPECT_EQ(ids_of(*merged, 2), (Ids{0, 2}));
  EXPECT_EQ(merged->requests[1].session, 6U);
  EXPECT_EQ(merged->requests[3].session, kNoSession);
  EXPECT_EQ(merged->requests[1].tenant, 1U);
  EXPECT_EQ(merged->requests[2].tenant, 1U);
  EXPECT_EQ(merged->requests[3].tenant, 2U);
}

TEST(Merge, OfOneIsThatOne) {
  const Workload workload = workload_of({{0.0, 600, 1, {0, 1}, 4}, {2.0, 600, 1, {0, 2}}});
  EXPECT_TRUE(same(*merge({workload}), workload));
}

TEST(Merge, BlockSizesMustAgreeWhereThereAreBlocks) {
  const Workload large = workload_of({{0.0, 600, 1, {0, 1}}}, 512);
  const Workload small = workload_of({{0.0, 600, 1, {0, 1}}}, 16);
  EXPECT_EQ(merge({large, small}).error().message(),
            "rows: has blocks of 16 tokens, but rows has blocks of 512; give all of them blocks of one size");
  const auto with_none = merge({workload_of({{0.0}}, 512), small});
  ASSERT_TRUE(with_none.has_value());
  EXPECT_EQ(with_none->block_tokens, 16U);
  EXPECT_FALSE(merge({}).has_value());
}

TEST(Merge, IdsThatAreFarApartAreNumberedAnew) {
  const Workload far = workload_of({{0.0, 1024, 1, {UINT32_MAX, 7}}, {1.0, 512, 1, {UINT32_MAX}}});
  const auto merged = merge({far, far});
  ASSERT_TRUE(merged.has_value());
  EXPECT_EQ(ids_of(*merged, 0), (Ids{0, 1}));
  EXPECT_EQ(ids_of(*merged, 1), (Ids{2, 3}));
  EXPECT_EQ(ids_of(*merged, 2), (Ids{0}));
  EXPECT_EQ(ids_of(*merged, 3), (Ids{2}));
}

TEST(Reblock, OfTheSameSizeChangesNothing) {
  const Workload workload = workload_of({{0.0, 1200, 5, {9, 4, 100}}});
  EXPECT_TRUE(same(*reblock(workload, 512), workload));
  EXPECT_EQ(reblock(workload, 512)->block_ids, workload.block_ids);
}

TEST(Reblock, SmallerBlocksNameEachPartAndEndWhereThePromptEnds) {
  // 8 tokens a block into 2: four parts each; the last block of the first prompt holds 3 tokens, hence two parts.
  const Workload workload = workload_of({{0.0, 11, 50, {0, 1}}, {1.0, 16, 50, {0, 1}}, {2.0, 20, 50, {0}}}, 8);
  const auto small = reblock(workload, 2);
  ASSERT_TRUE(small.has_value());
  EXPECT_EQ(small->block_tokens, 2U);
  EXPECT_EQ(ids_of(*small, 0), (Ids{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(ids_of(*small, 1), (Ids{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(ids_of(*small, 2), (Ids{0, 1, 2, 3}));
}

TEST(Reblock, SmallerBlocksGoOnOverTheOutputWhereIdsDo) {
  const Workload workload = workload_of({{0.0, 7, 6, {3, 0}}, {1.0, 15, 3, {3, 0, 1}}}, 8);
  const auto small = reblock(workload, 4);
  ASSERT_TRUE(small.has_value());
  EXPECT_EQ(ids_of(*small, 0), (Ids{6, 7, 0, 1}));     // 13 tokens
  EXPECT_EQ(ids_of(*small, 1), (Ids{6, 7, 0, 1, 2}));  // 18 tokens
}

TEST(Reblock, LargerBlocksAreNamedByTheLastOfTheirParts) {
  const Workload workload = workload_of({{0.0, 32, 1, {0, 1, 2, 3}}, {1.0, 32, 1, {0, 1, 4, 5}}}, 8);
  const auto large = reblock(workload, 16);
  ASSERT_TRUE(large.has_value());
  EXPECT_EQ(ids_of(*large, 0), (Ids{1, 3}));
  EXPECT_EQ(ids_of(*large, 1), (Ids{1, 5}));
}

TEST(Reblock, ATailIsNamedOnlyWhereItEndsTheRequestAndNeverLikeAFullBlock) {
  const Workload workload =
      workload_of({{0.0, 23, 1, {0, 1, 2}},            // ends in the third of two and two
                   {1.0, 32, 1, {0, 1, 5, 2}},         // a full block whose last part is 2
                   {2.0, 24, 1, {0, 1, 2}},            // the same tail again
                   {3.0, 40, 1, {0, 1, 2}},            // the prompt goes on without names
                   {4.0, 20, 9, {0, 1, 2, 3, 4}, 1}},  // a tail in mid-answer: 29 tokens are 4 blocks
                  8);
  const auto large = reblock(workload, 16);
  ASSERT_TRUE(large.has_value());
  EXPECT_EQ(ids_of(*large, 0), (Ids{1, 6}));
  EXPECT_EQ(ids_of(*large, 1), (Ids{1, 2}));
  EXPECT_EQ(ids_of(*large, 2), (Ids{1, 6}));
  EXPECT_EQ(ids_of(*large, 3), (Ids{1}));
  EXPECT_EQ(ids_of(*large, 4), (Ids{1, 3, 7}));
}

TEST(Reblock, SizesThatDoNotDivideAreErrors) {
  const Workload workload = workload_of({{0.0, 1200, 5, {0, 1, 2}}});
  EXPECT_EQ(reblock(workload, 100).error().message(),
            "rows: blocks of 512 tokens cannot be converted to blocks of 100; one size must divide the other");
  EXPECT_FALSE(reblock(workload, 0).has_value());
  EXPECT_FALSE(reblock(workload, 768).has_value());
}

TEST(Reblock, WithoutIdsAnySizeWillDo) {
  const auto any = reblock(workload_of({{0.0, 1200, 5}}), 100);
  ASSERT_TRUE(any.has_value());
  EXPECT_EQ(any->block_tokens, 100U);
}

TEST(Reblock, LargeIdsFitAfterTheyAreNumberedAnew) {
  const Workload workload = workload_of({{0.0, 16, 1, {UINT32_MAX, UINT32_MAX - 1}}}, 8);
  EXPECT_EQ(ids_of(*reblock(workload, 1), 0).back(), 15U);
}

TEST(Reblock, MoreIdsThanThereAreNumbersIsAnError) {
  const Workload workload = workload_of({{0.0, 1U << 30, 1, {0}},
                                         {1.0, 1U << 30, 1, {1}},
                                         {2.0, 1U << 30, 1, {2}},
                                         {3.0, 1U << 30, 1, {3}},
                                         {4.0, 1U << 30, 1, {4}}},
                                        1U << 30);
  const auto small = reblock(workload, 1);
  ASSERT_FALSE(small.has_value());
  EXPECT_EQ(small.error().message(),
            "rows: would have 5368709120 block ids, more than 4294967295; cut a window, or use larger blocks");
}

// Two requests share a new block exactly where they shared all of the old ones in it.
TEST(Reblock, SharingIsTheSameInBlocksOfAnySize) {
  SyntheticSpec spec;
  spec.input = {3000.0, 1.0, 20'000};
  spec.turns = 3.0;
  spec.prefix_groups = 5;
  spec.prefix_tokens = 1024;
  const Workload workload = *make_synthetic(spec, 3);
  const auto leading_same = [](const Workload& of, std::size_t a, std::size_t b) {
    const auto one = of.blocks_of(of.requests[a]);
    const auto other = of.blocks_of(of.requests[b]);
    std::size_t count = 0;
    while (count < std::min(one.size(), other.size()) && one[count] == other[count]) ++count;
    return count * of.block_tokens;
  };
  core::RandomStream random{1};
  for (const std::uint32_t block_tokens : {16U, 128U, 1024U, 2048U}) {
    const Workload changed = *reblock(workload, block_tokens);
    for (int pair = 0; pair < 2000; ++pair) {
      const auto a = random.below(workload.requests.size());
      const auto b = random.below(workload.requests.size());
      const auto full = std::min(workload.requests[a].input_tokens, workload.requests[b].input_tokens);
      const auto before = std::min<std::size_t>(leading_same(workload, a, b), full / 512 * 512);
      const auto after = std::min<std::size_t>(leading_same(changed, a, b), full / block_tokens * block_tokens);
      if (block_tokens > 512) {
        EXPECT_EQ(after, before / block_tokens * block_tokens) << a << ' ' << b;
      } else {
        EXPECT_GE(after, before);
        EXPECT_LT(after, before + 512);
      }
    }
  }
}

TEST(Reblock, LosesLittleReuseInLargerBlocksAndGainsLittleInSmallerOnes) {
  const Workload workload = built_in_workload(1);
  const double reuse = describe(workload).prefix_reuse;
  const double small = describe(*reblock(workload, 64)).prefix_reuse;
  const double large = describe(*reblock(workload, 1024)).prefix_reuse;
  EXPECT_LT(large, reuse);
  EXPECT_LT(reuse, small);
  EXPECT_NEAR(small, reuse, 0.1);
  EXPECT_NEAR(large, reuse, 0.15);
}

TEST(MarkBatch, MarksAboutTheShareAndALargerShareContainsASmallerOne) {
  Workload few, many;
  few.requests.resize(10'000);
  many.requests.resize(10'000);
  mark_batch(few, 0.2);
  mark_batch(many, 0.5);
  std::size_t marked = 0;
  for (std::size_t i = 0; i < few.requests.size(); ++i) {
    if (few.requests[i].traffic_class != TrafficClass::kBatch) continue;
    ++marked;
    EXPECT_EQ(many.requests[i].traffic_class, TrafficClass::kBatch);
  }
  EXPECT_NEAR(static_cast<double>(marked), 2'000.0, 150.0);
}

TEST(MarkBatch, MarksAllRequestsOfTheTenantsThatAreNamed) {
  Workload workload;
  workload.tenants = {"search", "nightly"};
  workload.requests.resize(4);
  workload.requests[1].tenant = workload.requests[2].tenant = 1;
  const std::vector<std::string> tenants{"unknown", "nightly"};
  mark_batch(workload, tenants);
  for (std::size_t i = 0; i < 4; ++i)
    EXPECT_EQ(workload.requests[i].traffic_class == TrafficClass::kBatch, i == 1 || i == 2) << i;
}

TEST(MarkBatch, ASessionIsOfOneClass) {
  Workload workload;
  workload.requests.resize(1'000);
  for (std::uint32_t i = 0; i < 1'000; ++i) workload.requests[i].session = i / 10;
  mark_batch(workload, 0.4);
  std::size_t sessions = 0;
  for (std::size_t i = 0; i < 1'000; ++i) {
    EXPECT_EQ(workload.requests[i].traffic_class, workload.requests[i / 10 * 10].traffic_class);
    sessions += i % 10 == 0 && workload.requests[i].traffic_class == TrafficClass::kBatch ? 1 : 0;
  }
  EXPECT_GT(sessions, 20U);
  EXPECT_LT(sessions, 60U);
}

}  // namespace
}  // namespace penstock::workload
