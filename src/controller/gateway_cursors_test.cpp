#include "controller/gateway_cursors.h"

#include <gtest/gtest.h>

namespace penstock::controller {
namespace {

using namespace std::chrono_literals;
constexpr core::Instant kNow = core::kStart + 100s;

TEST(GatewayCursors, EachGatewayIsReadFromWhereItsPagesHaveEnded) {
  GatewayCursors cursors;
  EXPECT_EQ(cursors.after("a"), 0U);
  EXPECT_TRUE(cursors.take("a", 0, 10));
  EXPECT_FALSE(cursors.take("b", 10, 12)) << "the number is one of another gateway";
  EXPECT_EQ(cursors.after("b"), 0U);
  EXPECT_TRUE(cursors.take("b", 0, 5));
  EXPECT_FALSE(cursors.take("a", 5, 11));
  EXPECT_FALSE(cursors.take("a", 0, 11)) << "the same gateway at a second address has no events of its own";
  EXPECT_EQ(cursors.after("a"), 10U);
  EXPECT_TRUE(cursors.take("a", 10, 11));
  cursors.restart();
  EXPECT_EQ(cursors.after("a"), 0U);
  EXPECT_FALSE(cursors.take("a", 11, 12)) << "it was requested before";
}

TEST(SharedAddress, AGatewayThatIsBackIsOneOfSeveral) {
  SharedAddress address;
  EXPECT_FALSE(address.answered("a", kNow));
  EXPECT_FALSE(address.answered("b", kNow)) << "it may be the same gateway after a restart";
  EXPECT_TRUE(address.answered("a", kNow)) << "there are two";
}

TEST(SharedAddress, AnotherGatewayIsNoticedOnAConnectionOfItsOwn) {
  SharedAddress address;
  address.answered_apart("a");
  EXPECT_FALSE(address.answered("a", kNow));
  address.answered_apart("a");
  EXPECT_FALSE(address.answered("a", kNow));
  address.answered_apart("b");
  EXPECT_TRUE(address.answered("a", kNow));
  address.answered_apart("b");
  EXPECT_FALSE(address.answered("a", kNow + 9min)) << "at most once in 10 minutes";
  address.answered_apart("b");
  EXPECT_TRUE(address.answered("a", kNow + 10min));
}

TEST(SharedAddress, ARestartedGatewayIsNotAnother) {
  SharedAddress address;
  EXPECT_FALSE(address.answered("a", kNow));
  address.answered_apart("b");
  EXPECT_FALSE(address.answered("b", kNow));
  EXPECT_FALSE(address.answered("b", kNow));
}

}  // namespace
}  // namespace penstock::controller
