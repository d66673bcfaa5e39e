#include "gateway/overload_watch.h"

#include <gtest/gtest.h>

namespace penstock::gateway {
namespace {

using std::chrono::seconds;

constexpr core::Instant kNow = core::kStart + seconds{100};

class OverloadWatchTest : public testing::Test {
 protected:
  // Counts are queue, degrade, drop and shed.
  std::vector<OverloadChange> look(const dispatch::OverloadCounts& counts, core::Duration later) {
    segment_.counts = counts;
    return watch_.look({&segment_, 1}, kNow + later);
  }
  dispatch::SegmentOverload segment_{"shop", admission::Class::kBatch, {}};
  OverloadWatch watch_;
};

TEST_F(OverloadWatchTest, APolicyBeginsWithItsFirstRequestAndEndsAfterAQuietTime) {
  EXPECT_TRUE(look({}, seconds{0}).empty());
  const auto began = look({0, 0, 0, 5}, seconds{1});
  ASSERT_EQ(began.size(), 1U);
  EXPECT_EQ(began[0].tenant, "shop");
  EXPECT_EQ(began[0].traffic_class, "batch");
  EXPECT_EQ(began[0].action, "shed");
  EXPECT_TRUE(began[0].began);
  EXPECT_TRUE(look({0, 0, 0, 7}, seconds{2}).empty());
  EXPECT_TRUE(look({0, 0, 0, 7}, seconds{31}).empty());
  const auto ended = look({0, 0, 0, 7}, seconds{32});
  ASSERT_EQ(ended.size(), 1U);
  EXPECT_FALSE(ended[0].began);
  EXPECT_EQ(ended[0].requests, 7U);
  EXPECT_TRUE(look({0, 0, 0, 7}, seconds{90}).empty());
  EXPECT_TRUE(look({0, 0, 0, 8}, seconds{91}).front().began);
}

TEST_F(OverloadWatchTest, RequestsThatWaitAreNoChange) { EXPECT_TRUE(look({50, 0, 0, 0}, seconds{1}).empty()); }

TEST_F(OverloadWatchTest, ActionsOfASegmentAreReportedEach) { EXPECT_EQ(look({9, 1, 1, 0}, seconds{1}).size(), 2U); }

}  // namespace
}  // namespace penstock::gateway
