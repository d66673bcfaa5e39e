#include "planner/global/offers.h"

#include <gtest/gtest.h>

#include <limits>

namespace penstock::planner::global {
namespace {

std::vector<std::vector<std::uint32_t>> replicas_of(const Offer& offer) {
  std::vector<std::vector<std::uint32_t>> result;
  for (const Step& step : offer.steps) result.push_back(step.replicas);
  return result;
}

TEST(Offers, LinearOneStartsAtItsFloorAndEndsAtItsMax) {
  const Offer offer = linear_offer({"pool", "h100", 8}, {2, 4}, 1.5);
  EXPECT_EQ(replicas_of(offer), (std::vector<std::vector<std::uint32_t>>{{2}, {3}, {4}}));
  EXPECT_DOUBLE_EQ(offer.steps[0].carried_rps, 3.0);
  EXPECT_DOUBLE_EQ(offer.steps[2].carried_rps, 6.0);
}

TEST(Offers, CurveTurnsSharesIntoTrafficAndSmoothsNoise) {
  const auto offer = curve_offer({"pool", "h100", 1}, {1, 4}, 20.0, std::vector<double>{0.2, 0.6, 0.55, 1.0});
  ASSERT_TRUE(offer.has_value());
  EXPECT_DOUBLE_EQ(offer->steps[0].carried_rps, 4.0);
  EXPECT_DOUBLE_EQ(offer->steps[1].carried_rps, 12.0);
  EXPECT_DOUBLE_EQ(offer->steps[2].carried_rps, 12.0);
  EXPECT_DOUBLE_EQ(offer->steps[3].carried_rps, 20.0);
}

TEST(Offers, CurveRejectsInvalidShares) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(curve_offer({"pool", "h100", 1}, {1, 2}, 1.0, std::vector<double>{0.5, 1.5}).error().message(),
            "pool.shares[1]: must be within 0 and 1, is 1.5");
  EXPECT_EQ(curve_offer({"pool", "h100", 1}, {1, 1}, 1.0, std::vector<double>{nan}).error().where, "pool.shares[0]");
  EXPECT_EQ(curve_offer({"pool", "h100", 1}, {1, 3}, 1.0, std::vector<double>{0.5}).error().message(),
            "pool.shares: 1 shares for 1 to 3 replicas; give one share for each number of replicas");
}

TEST(Offers, DisaggregatedSidesGrowInTheRatioOfTheirCapacities) {
  // 6 requests/s a prefill replica, 4 a decode replica: two to three.
  const auto offer = disaggregated_offer({{"prefill", "h100", 1}, {1, 4}, 6.0}, {{"decode", "h100", 1}, {1, 9}, 4.0});
  ASSERT_TRUE(offer.has_value());
  EXPECT_EQ(replicas_of(*offer),
            (std::vector<std::vector<std::uint32_t>>{{1, 1}, {1, 2}, {2, 2}, {2, 3}, {3, 4}, {3, 5}, {4, 5}, {4, 6}}));
  EXPECT_DOUBLE_EQ(offer->steps[3].carried_rps, 12.0);
  EXPECT_DOUBLE_EQ(offer->steps[7].carried_rps, 24.0);
}

TEST(Offers, DisaggregatedSideDoesNotGrowBeyondTheOthersMax) {
  const auto offer = disaggregated_offer({{"prefill", "h100", 1}, {1, 1}, 10.0}, {{"decode", "h100", 1}, {1, 9}, 5.0});
  ASSERT_TRUE(offer.has_value());
  EXPECT_EQ(replicas_of(*offer), (std::vector<std::vector<std::uint32_t>>{{1, 1}, {1, 2}}));
}

TEST(Offers, DisaggregatedRejectsASideWithoutCapacity) {
  EXPECT_EQ(disaggregated_offer({{"prefill", "h100", 1}, {1, 1}, 0.0}, {{"decode", "h100", 1}, {1, 9}, 5.0})
                .error()
                .message(),
            "prefill.rps_per_replica: must be above 0, is 0");
  EXPECT_EQ(disaggregated_offer({{"prefill", "h100", 1}, {1, 1}, 1.0}, {{"decode", "h100", 1}, {3, 2}, 5.0})
                .error()
                .message(),
            "decode.max: must be at least min (3), is 2");
}

}  // namespace
}  // namespace penstock::planner::global
