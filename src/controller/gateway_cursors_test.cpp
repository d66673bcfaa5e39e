#include "controller/gateway_cursors.h"

#include <gtest/gtest.h>

namespace penstock::controller {
namespace {

using namespace std::chrono_literals;
constexpr core::Instant kNow = core::kStart + 100s;

TEST(GatewayCursors, AGatewayThatWasReadBeforeContinuesWhereItWas) {
  GatewayCursors cursors;
  EXPECT_EQ(cursors.after(), 0U);
  EXPECT_FALSE(cursors.answered("a", kNow));
  EXPECT_TRUE(cursors.take(0, 10));
  EXPECT_FALSE(cursors.answered("b", kNow)) << "it may be the same gateway after a restart";
  EXPECT_FALSE(cursors.take(10, 12)) << "the number is one of another gateway";
  EXPECT_EQ(cursors.after(), 0U);
  EXPECT_TRUE(cursors.take(0, 5));
  EXPECT_TRUE(cursors.answered("a", kNow)) << "there are two";
  EXPECT_FALSE(cursors.take(5, 11));
  EXPECT_EQ(cursors.after(), 10U);
  EXPECT_TRUE(cursors.take(10, 11));
  cursors.restart();
  EXPECT_EQ(cursors.after(), 0U);
  EXPECT_FALSE(cursors.take(11, 12)) << "it was requested before";
}

TEST(GatewayCursors, AnotherGatewayIsNoticedOnAConnectionOfItsOwn) {
  GatewayCursors cursors;
  cursors.answered_apart("a");
  EXPECT_FALSE(cursors.answered("a", kNow));
  cursors.answered_apart("a");
  EXPECT_FALSE(cursors.answered("a", kNow));
  cursors.answered_apart("b");
  EXPECT_TRUE(cursors.answered("a", kNow));
  cursors.answered_apart("b");
  EXPECT_FALSE(cursors.answered("a", kNow + 9min)) << "at most once in 10 minutes";
  cursors.answered_apart("b");
  EXPECT_TRUE(cursors.answered("a", kNow + 10min));
}

TEST(GatewayCursors, ARestartedGatewayIsNotAnother) {
  GatewayCursors cursors;
  EXPECT_FALSE(cursors.answered("a", kNow));
  cursors.answered_apart("b");
  EXPECT_FALSE(cursors.answered("b", kNow));
  EXPECT_FALSE(cursors.answered("b", kNow));
}

}  // namespace
}  // namespace penstock::controller
