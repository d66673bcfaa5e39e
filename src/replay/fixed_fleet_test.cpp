#include "replay/fixed_fleet.h"

#include <gtest/gtest.h>

#include <set>

namespace penstock::replay {
namespace {

struct Outcome {
  std::optional<FleetSizes> fleet;
  std::size_t trials = 0;
};

// Tries fleets of which those reach the goal that `reaches` accepts; no fleet is tried twice.
Outcome search(const std::vector<PoolSizes>& pools, const std::function<bool(const FleetSizes&)>& reaches) {
  std::set<FleetSizes> tried;
  const auto found = cheapest_fleet(pools, [&](const FleetSizes& fleet) -> core::Result<FleetTrial> {
    EXPECT_TRUE(tried.insert(fleet).second);
    for (std::size_t i = 0; i < fleet.size(); ++i) EXPECT_TRUE(fleet[i] >= pools[i].min && fleet[i] <= pools[i].max);
    return FleetTrial{reaches(fleet), 0.0};
  });
  EXPECT_TRUE(found);
  return {*found, tried.size()};
}

TEST(FixedFleet, IsTheSmallestOfOnePoolThatReachesTheGoal) {
  for (std::uint32_t needed = 1; needed <= 64; ++needed) {
    const Outcome outcome = search({{1, 64, 1.0}}, [&](const FleetSizes& fleet) { return fleet[0] >= needed; });
    EXPECT_EQ(outcome.fleet, FleetSizes{needed});
    EXPECT_LE(outcome.trials, 12U);
  }
  EXPECT_EQ(search({{5, 7, 1.0}}, [](const FleetSizes&) { return true; }).fleet, FleetSizes{5});
}

TEST(FixedFleet, IsTheSameFromAnExpectedSizeAndOneFewerWasTried) {
  for (std::uint32_t expected = 0; expected <= 70; ++expected)
    for (const std::uint32_t needed : {1U, 2U, 7U, 31U, 64U}) {
      std::set<std::uint32_t> tried;
      const auto reaches = [&](const FleetSizes& fleet) {
        tried.insert(fleet[0]);
        return fleet[0] >= needed;
      };
      const Outcome outcome = search({{1, 64, 1.0, expected}}, reaches);
      EXPECT_EQ(outcome.fleet, FleetSizes{needed}) << "expected " << expected;
      EXPECT_TRUE(needed == 1 || tried.count(needed - 1) == 1) << "expected " << expected << ", needed " << needed;
      EXPECT_TRUE(expected != needed || outcome.trials <= 2U) << "expected " << expected;
    }
}

TEST(FixedFleet, OfTwoPoolsIsTheCheapestSplit) {
  for (const double price : {0.25, 1.0, 3.0}) {
    for (std::uint32_t prefill = 1; prefill <= 6; ++prefill)
      for (std::uint32_t decode = 1; decode <= 8; ++decode) {
        // Below `decode` replicas of the second pool, each one that is missing needs two more of the first.
        const auto reaches = [&](const FleetSizes& fleet) {
          return fleet[0] >= prefill + 2 * (decode - std::min(decode, fleet[1]));
        };
        const std::vector<PoolSizes> pools{{1, 16, price}, {1, 8, 1.0}};
        double cheapest = 1e9;
        for (std::uint32_t a = 1; a <= 16; ++a)
          for (std::uint32_t b = 1; b <= 8; ++b)
            if (reaches({a, b})) cheapest = std::min(cheapest, price * a + b);
        const auto found = search(pools, reaches).fleet;
        ASSERT_TRUE(found);
        EXPECT_DOUBLE_EQ(price * (*found)[0] + (*found)[1], cheapest) << prefill << " " << decode;
      }
  }
}

TEST(FixedFleet, IsNoneIfTheLargestMissesTheGoal) {
  const Outcome outcome = search({{1, 64, 1.0}}, [](const FleetSizes&) { return false; });
  EXPECT_FALSE(outcome.fleet);
  EXPECT_EQ(outcome.trials, 7U);
}

TEST(FixedFleet, GivesUpOnceTwiceTheReplicasAttainNoMore) {
  std::vector<std::uint32_t> tried;
  const auto found = cheapest_fleet({{1, 10'000, 1.0}}, [&](const FleetSizes& fleet) -> core::Result<FleetTrial> {
    tried.push_back(fleet[0]);
    return FleetTrial{false, fleet[0] < 4 ? 0.0 : 0.9};  // Overloaded fleets attain nothing, whatever their size.
  });
  ASSERT_TRUE(found);
  EXPECT_FALSE(*found);
  EXPECT_EQ(tried, (std::vector<std::uint32_t>{1, 2, 4, 8}));
}

TEST(FixedFleet, EndsWithTheErrorOfARun) {
  const auto found = cheapest_fleet({{1, 4, 1.0}}, [](const FleetSizes&) -> core::Result<FleetTrial> {
    return core::invalid_input("trace", "is damaged");
  });
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().where, "trace");
}

}  // namespace
}  // namespace penstock::replay
