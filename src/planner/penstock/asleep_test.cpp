#include "planner/penstock/asleep.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "core/random.h"

namespace penstock::planner {
namespace {

using namespace std::chrono_literals;

// Waking takes a tenth of a start-up, and sleep costs a fifth of the price.
signals::Pool pool(std::uint32_t min = 1, std::uint32_t max = 20) {
  signals::Pool made;
  made.min_replicas = min;
  made.max_replicas = max;
  made.start_up = 100s;
  made.wake_time = 10s;
  made.sleep_price = 0.2;
  return made;
}

// Of a hundred futures, 90 need two replicas, 8 need four and 2 need nine, none of them at once.
const std::vector<FutureNeed> kRareBursts{{2, 2, 90}, {2, 4, 8}, {2, 9, 2}};

TEST(AsleepReplicas, CoverTheNeedThatIsExceededTooRarelyToPayForSleep) {
  // One more asleep pays above a probability of 0.2 / (0.9 · (miss price − 0.8)).
  EXPECT_EQ(asleep_for(kRareBursts, 2, pool(), 2.0), 0U);    // 0.185 > P(need > 2) = 0.1
  EXPECT_EQ(asleep_for(kRareBursts, 2, pool(), 4.0), 2U);    // 0.069 > P(need > 4) = 0.02
  EXPECT_EQ(asleep_for(kRareBursts, 2, pool(), 20.0), 7U);   // 0.0116 < 0.02
  EXPECT_EQ(asleep_for(kRareBursts, 5, pool(), 20.0), 4U);   // The base covers a part.
  EXPECT_EQ(asleep_for(kRareBursts, 12, pool(), 20.0), 0U);  // The base covers all.
}

TEST(AsleepReplicas, CostWhatTheFormulaSays) {
  // 2 + 0.2 · 2 + 0.9 · ((8 · 2 + 2 · 2) · 0.8 + 4 · 2 · 5) / 100
  EXPECT_NEAR(expected_cost(kRareBursts, 2, 2, pool(), 4.0), 2.4 + 0.9 * (20.0 * 0.8 + 40.0) / 100.0, 1e-12);
  // What is needed at once is missing for a tenth of the time.
  EXPECT_NEAR(expected_cost(std::vector<FutureNeed>{{3, 3, 1}}, 1, 2, pool(), 5.0),
              1.4 + 0.1 * 5.0 * 2.0 + 0.9 * 0.8 * 2.0, 1e-12);
}

TEST(AsleepReplicas, AreFewerThanTheMaximumLeaves) {
  EXPECT_EQ(asleep_for(kRareBursts, 2, pool(1, 5), 20.0), 3U);
  EXPECT_EQ(asleep_for(kRareBursts, 5, pool(1, 5), 20.0), 0U);
  EXPECT_EQ(asleep_for(kRareBursts, 9, pool(1, 5), 20.0), 0U);
}

TEST(AsleepReplicas, AreNoneWhereWakingIsNoFasterThanStarting) {
  signals::Pool slow = pool();
  for (const core::Duration wake_time : {0s, 100s, 200s}) {
    slow.wake_time = wake_time;
    EXPECT_EQ(asleep_for(kRareBursts, 2, slow, 1000.0), 0U);
  }
}

TEST(AsleepReplicas, ThatCostNothingCoverEveryFuture) {
  signals::Pool free = pool();
  free.sleep_price = 0.0;
  EXPECT_EQ(asleep_for(kRareBursts, 2, free, 1.1), 7U);
  EXPECT_EQ(asleep_for(kRareBursts, 2, free, 0.9), 0U);  // A miss costs less than a replica that is awake.
}

TEST(AsleepReplicas, PartsOfAReplicaAreRoundedUp) {
  EXPECT_EQ(asleep_for(std::vector<FutureNeed>{{1, 2.1, 1}}, 2, pool(), 20.0), 1U);
  EXPECT_EQ(asleep_for(std::vector<FutureNeed>{{1, 2.0 + 1e-12, 1}}, 2, pool(), 20.0), 0U);
}

TEST(AsleepReplicas, IgnoreFuturesWithoutAMeaning) {
  const double nan = std::numeric_limits<double>::quiet_NaN(), infinite = std::numeric_limits<double>::infinity();
  std::vector<FutureNeed> futures = kRareBursts;
  for (const FutureNeed& bad : {FutureNeed{nan, 5, 1}, {2, infinite, 1}, {2, 50, -1}, {2, 50, nan}, {2, 50, 0}})
    futures.push_back(bad);
  EXPECT_EQ(asleep_for(futures, 2, pool(), 4.0), 2U);
  EXPECT_EQ(asleep_for(futures, 2, pool(), nan), 0U);
  EXPECT_EQ(two_stages_for({}, pool(3, 20), 4.0).base, 3U);
  EXPECT_EQ(two_stages_for({}, pool(3, 20), 4.0).asleep, 0U);
}

TEST(TwoStages, TheBaseCoversWhatCannotWaitForTheWakeTime) {
  // Both need six replicas in the end; only the second needs them at once.
  const std::vector<FutureNeed> slow{{2, 2, 0.7}, {2, 6, 0.3}}, sudden{{2, 2, 0.7}, {6, 6, 0.3}};
  const TwoStages later = two_stages_for(slow, pool(), 40.0), at_once = two_stages_for(sudden, pool(), 40.0);
  EXPECT_EQ(later.base, 2U);
  EXPECT_EQ(later.asleep, 4U);
  EXPECT_EQ(at_once.base, 6U);
  EXPECT_EQ(at_once.asleep, 0U);
}

TEST(TwoStages, WithoutAWakeTimeTheBaseIsTheNewsvendorsQuantile) {
  signals::Pool one_stage = pool();
  one_stage.wake_time = {};
  std::vector<FutureNeed> futures;
  for (int need = 1; need <= 10; ++need) futures.push_back({1.0 * need, 1.0 * need, 1.0});
  // One more pays while P(need > base) > 1 / miss price.
  EXPECT_EQ(two_stages_for(futures, one_stage, 4.0).base, 8U);
  EXPECT_EQ(two_stages_for(futures, one_stage, 4.0).asleep, 0U);
}

TEST(TwoStages, NoOtherChoiceIsCheaper) {
  core::RandomStream random{7};
  for (int round = 0; round < 300; ++round) {
    SCOPED_TRACE(round);
    signals::Pool made = pool(static_cast<std::uint32_t>(1 + random.below(3)), 10);
    made.wake_time = std::chrono::seconds{random.below(120)};
    made.sleep_price = random.uniform();
    const double miss_price = random.uniform() * 30.0;
    std::vector<FutureNeed> futures;
    for (std::uint64_t i = 1 + random.below(12); i-- > 0;) {
      const double soon = random.uniform() * 12.0;
      futures.push_back({soon, soon + random.uniform() * 4.0, 0.1 + random.uniform()});
    }
    const TwoStages best = two_stages_for(futures, made, miss_price);
    EXPECT_LE(best.base + best.asleep, made.max_replicas);
    EXPECT_GE(best.base, made.min_replicas);
    EXPECT_EQ(best.asleep, asleep_for(futures, best.base, made, miss_price));
    EXPECT_NEAR(best.cost, expected_cost(futures, best.base, best.asleep, made, miss_price), 1e-9);
    for (std::uint32_t base = made.min_replicas; base <= made.max_replicas; ++base)
      for (std::uint32_t asleep = 0; base + asleep <= made.max_replicas; ++asleep)
        EXPECT_LE(best.cost, expected_cost(futures, base, asleep, made, miss_price) + 1e-9) << base << " " << asleep;
    if (HasFailure()) return;
  }
}

TEST(TwoStages, ADearerMissNeverLeadsToFewerReplicas) {
  std::uint32_t before = 0;
  for (double miss_price = 1.0; miss_price < 200.0; miss_price *= 1.5) {
    const TwoStages made = two_stages_for(kRareBursts, pool(), miss_price);
    EXPECT_GE(made.base + made.asleep, before);
    before = made.base + made.asleep;
  }
}

}  // namespace
}  // namespace penstock::planner
