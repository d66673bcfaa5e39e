#include "routing/prefix_pings.h"

#include <gtest/gtest.h>

namespace penstock::routing {
namespace {

using namespace std::chrono_literals;

constexpr core::Instant at(core::Duration time) { return core::kStart + time; }

PrefixUse use(std::uint32_t replica, std::uint64_t prefix, core::Duration used_at) {
  return {replica, prefix, 10, 100, at(used_at), at(used_at)};
}

TEST(PrefixPings, AreDueForIdleHotPrefixesAndEndWhenTheyAreCold) {
  std::vector<PrefixUse> uses{use(1, 7, 0s)};
  EXPECT_TRUE(pings_due(uses, {}, at(119s)).empty());
  EXPECT_EQ(pings_due(uses, {}, at(120s)), (std::vector<Ping>{{1, 7}}));
  uses[0].sent_at = at(120s);
  EXPECT_TRUE(pings_due(uses, {}, at(239s)).empty());
  EXPECT_FALSE(pings_due(uses, {}, at(240s)).empty());
  EXPECT_TRUE(pings_due(uses, {}, at(31min)).empty());
}

TEST(PrefixPings, AreDueOnReplicasThatUsersDoNotReach) {
  std::vector<PrefixUse> uses{use(1, 7, 10min), use(2, 7, 10min)};
  uses[1].sent_at = at(0s);
  EXPECT_EQ(pings_due(uses, {}, at(10min)), (std::vector<Ping>{{2, 7}}));
}

TEST(PrefixPings, AreLimitedByReplicaAndOrderedBySavings) {
  std::vector<PrefixUse> uses{use(1, 1, 0s), use(2, 5, 0s), use(1, 2, 0s), use(1, 3, 0s)};
  uses[3].tokens = 1000;
  EXPECT_EQ(pings_due(uses, {}, at(3min)), (std::vector<Ping>{{1, 3}, {1, 1}, {2, 5}}));
}

}  // namespace
}  // namespace penstock::routing
