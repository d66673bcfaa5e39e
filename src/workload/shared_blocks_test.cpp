#include "workload/shared_blocks.h"

#include <gtest/gtest.h>

#include "workload/workload_testing.h"

namespace penstock::workload {
namespace {

using Counts = std::vector<std::uint32_t>;

TEST(SharedBlocks, AreThoseUpToTheLastThatAnotherRequestHas) {
  const Workload workload = testing::workload_of(
      {{0, 2048, 1, {1, 2, 3, 4}}, {1, 2048, 1, {1, 2, 5, 6}}, {2, 512, 1, {7}}, {3, 1, 1}, {4, 1024, 1, {8, 6}}});
  EXPECT_EQ(shared_block_counts(workload), (Counts{2, 4, 0, 0, 2}));
}

TEST(SharedBlocks, OfSparseIdsAreTheSame) {
  const std::uint32_t far = UINT32_MAX;
  const Workload workload =
      testing::workload_of({{0, 1024, 1, {far, 5}}, {1, 1024, 1, {far, far - 1}}, {2, 1, 1, {9}}});
  EXPECT_EQ(shared_block_counts(workload), (Counts{1, 1, 0}));
}

TEST(SharedBlocks, RequestsMayHaveTheSamePartOfTheIds) {
  Workload workload = testing::workload_of({{0, 1024, 1, {1, 2}}, {1, 1024, 1}});
  workload.requests[1].block_count = 1;
  workload.requests[1].first_block = 0;
  EXPECT_EQ(shared_block_counts(workload), (Counts{1, 1}));
}

TEST(SharedBlocks, PromptsOfCachesCountAsFurtherRequests) {
  const Workload workload = testing::workload_of({{0, 1536, 1, {1, 2, 3}}, {1, 1024, 1, {4, 5}}});
  const std::vector<std::uint32_t> prompt = {1, 2};
  const std::vector<std::span<const std::uint32_t>> cached = {prompt};
  EXPECT_EQ(shared_block_counts(workload, cached), (Counts{2, 0}));
}

TEST(SharedBlocks, OfAWorkloadWithoutIdsAreNone) {
  EXPECT_EQ(shared_block_counts(testing::workload_of({{0, 1, 1}, {1, 1, 1}})), (Counts{0, 0}));
}

}  // namespace
}  // namespace penstock::workload
