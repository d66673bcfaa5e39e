#include "admission/overload.h"

#include <gtest/gtest.h>

namespace penstock::admission {
namespace {

using std::chrono::seconds;

TEST(Overload, TheActionOfATenantReplacesThatOfItsClass) {
  EXPECT_EQ(action_of({}, OverloadAction::kDrop, seconds{1}), OverloadAction::kDrop);
  EXPECT_EQ(action_of(OverloadAction::kQueue, OverloadAction::kDrop, seconds{1}), OverloadAction::kQueue);
}

TEST(Overload, RequestsOfAClassWithoutAQueueTimeNeverWait) {
  EXPECT_EQ(action_of({}, OverloadAction::kDegrade, {}), OverloadAction::kShed);
  EXPECT_EQ(action_of(OverloadAction::kQueue, OverloadAction::kQueue, {}), OverloadAction::kShed);
}

TEST(Overload, InteractiveRequestsAndHigherTiersGiveWayLast) {
  constexpr Precedence kBatch{Class::kBatch, 9}, kLow{Class::kInteractive, 0}, kHigh{Class::kInteractive, 1};
  EXPECT_LT(kBatch, kLow);
  EXPECT_LT(kLow, kHigh);
  EXPECT_LT((Precedence{Class::kBatch, -1}), (Precedence{Class::kBatch, 0}));
  EXPECT_EQ(kLow, (Precedence{Class::kInteractive, 0}));
}

TEST(Overload, OnlyBatchRequestsThatShedOrDropLeaveHeadroom) {
  EXPECT_TRUE(leaves_headroom(OverloadAction::kShed, Class::kBatch));
  EXPECT_TRUE(leaves_headroom(OverloadAction::kDrop, Class::kBatch));
  EXPECT_FALSE(leaves_headroom(OverloadAction::kQueue, Class::kBatch));
  EXPECT_FALSE(leaves_headroom(OverloadAction::kDegrade, Class::kBatch));
  EXPECT_FALSE(leaves_headroom(OverloadAction::kShed, Class::kInteractive));
}

TEST(Overload, MaxTokensIsLoweredOnlyAboveTheLimit) {
  const DegradeLimits limits;
  EXPECT_EQ(degraded_max_tokens(4096, 131'072, limits), std::nullopt);
  EXPECT_EQ(degraded_max_tokens(4096, 131'073, limits), 512U);
  EXPECT_EQ(degraded_max_tokens(std::nullopt, 131'073, limits), 512U);
  EXPECT_EQ(degraded_max_tokens(512, 131'073, limits), std::nullopt);
  EXPECT_EQ(degraded_max_tokens(16, 131'073, limits), std::nullopt);
}

}  // namespace
}  // namespace penstock::admission
