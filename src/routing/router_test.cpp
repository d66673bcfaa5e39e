#include "routing/router.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

namespace penstock::routing {
namespace {

constexpr std::uint32_t kBlockTokens = 16;

Router make(Strategy strategy, std::uint32_t replicas, std::uint64_t seed = 1) {
  Router router{strategy, kBlockTokens, core::RandomStream{seed}};
  for (std::uint32_t slot = 0; slot < replicas; ++slot) router.set_eligible(slot, true);
  return router;
}

TEST(Router, NoReplicaIsChosenWithoutEligibleReplicas) {
  Router router = make(Strategy::kKv, 1);
  router.set_eligible(0, false);
  EXPECT_FALSE(router.choose({100, {}}).has_value());
}

TEST(Router, RoundRobinSkipsReplicasThatLeft) {
  Router router = make(Strategy::kRoundRobin, 3);
  std::vector<std::uint32_t> order;
  for (int i = 0; i < 4; ++i) order.push_back(router.choose({1, {}})->slot);
  EXPECT_EQ(order, (std::vector<std::uint32_t>{0, 1, 2, 0}));
  router.set_eligible(1, false);
  for (int i = 0; i < 4; ++i) EXPECT_NE(router.choose({1, {}})->slot, 1U);
}

TEST(Router, LeastLoadedChoosesTheFewestOpenRequests) {
  Router router = make(Strategy::kLeastLoaded, 3);
  router.dispatched(0, 10, 1);
  router.dispatched(1, 10, 1);
  EXPECT_EQ(router.choose({1, {}})->slot, 2U);
  router.dispatched(2, 10, 1);
  router.dispatched(2, 10, 1);
  router.finished(1, 1);
  EXPECT_EQ(router.choose({1, {}})->slot, 1U);
}

TEST(Router, PowerOfTwoNeverChoosesTheMostLoaded) {
  Router router = make(Strategy::kPowerOfTwo, 4);
  router.dispatched(2, 10, 1);
  for (int i = 0; i < 200; ++i) EXPECT_NE(router.choose({1, {}})->slot, 2U);
}

TEST(Router, KvPrefersTheReplicaThatHoldsThePrefix) {
  Router router = make(Strategy::kKv, 4);
  const std::array<std::uint64_t, 3> ids = {7, 8, 9};
  for (const std::uint64_t key : {7, 8}) router.index().stored(3, key);
  const auto choice = router.choose({48, ids});
  EXPECT_EQ(choice->slot, 3U);
  EXPECT_EQ(choice->overlap_blocks, 2U);
}

TEST(Router, KvLeavesAHotPrefixWhenItsReplicaIsBusier) {
  Router router = make(Strategy::kKv, 2);
  const std::array<std::uint64_t, 3> ids = {7, 8, 9};
  for (const std::uint64_t key : {7, 8, 9}) router.index().stored(0, key);
  router.dispatched(0, 0, 2);  // 32 tokens held against 48 saved.
  EXPECT_EQ(router.choose({48, ids})->slot, 0U);
  router.dispatched(0, 17, 0);  // 49 against 48.
  EXPECT_EQ(router.choose({48, ids})->slot, 1U);
  router.first_token(0, 17);
  EXPECT_EQ(router.choose({48, ids})->slot, 0U);
}

TEST(Router, KvBreaksTiesEvenly) {
  Router router = make(Strategy::kKv, 4);
  std::array<int, 4> chosen{};
  for (int i = 0; i < 4000; ++i) ++chosen[router.choose({100, {}})->slot];
  for (const int count : chosen) EXPECT_NEAR(count, 1000, 120);
}

TEST(Router, AForgottenReplicaReturnsWithoutLoadOrPrefixes) {
  Router router = make(Strategy::kKv, 2);
  const std::array<std::uint64_t, 1> ids = {7};
  router.index().stored(0, 7);
  router.dispatched(0, 1000, 50);
  router.forget(0);
  EXPECT_EQ(router.choose({16, ids})->slot, 1U);
  router.set_eligible(0, true);
  EXPECT_EQ(router.load(0).open_requests, 0U);
  EXPECT_EQ(router.choose({16, ids})->overlap_blocks, 0U);
}

}  // namespace
}  // namespace penstock::routing
