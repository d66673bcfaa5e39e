#include "routing/sessions.h"

#include <gtest/gtest.h>

namespace penstock::routing {
namespace {

using namespace std::chrono_literals;
constexpr core::Instant kNow = core::kStart + 100s;

TEST(Sessions, ReturnToTheirLastReplica) {
  Sessions sessions{10, 30min};
  sessions.remember(7, 1, kNow);
  sessions.remember(7, 2, kNow);
  EXPECT_EQ(sessions.find(7, kNow), 2U);
  EXPECT_EQ(sessions.find(8, kNow), Sessions::kNone);
}

TEST(Sessions, ExpireWhenUnused) {
  Sessions sessions{10, 30min};
  sessions.remember(7, 1, kNow);
  EXPECT_EQ(sessions.find(7, kNow + 30min), 1U);
  EXPECT_EQ(sessions.find(7, kNow + 31min), Sessions::kNone);
}

TEST(Sessions, TheOldestIsEvictedAtTheLimit) {
  Sessions sessions{2, 30min};
  sessions.remember(1, 1, kNow);
  sessions.remember(2, 2, kNow);
  sessions.remember(1, 1, kNow);
  sessions.remember(3, 3, kNow);
  EXPECT_EQ(sessions.find(1, kNow), 1U);
  EXPECT_EQ(sessions.find(2, kNow), Sessions::kNone);
  EXPECT_EQ(sessions.find(3, kNow), 3U);
}

TEST(Sessions, DoNotFollowAReusedSlot) {
  Sessions sessions{10, 30min};
  sessions.remember(1, 4, kNow);
  sessions.forget(4);
  EXPECT_EQ(sessions.find(1, kNow), Sessions::kNone);
  sessions.remember(1, 4, kNow);
  EXPECT_EQ(sessions.find(1, kNow), 4U);
}

}  // namespace
}  // namespace penstock::routing
