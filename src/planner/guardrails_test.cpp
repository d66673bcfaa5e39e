#include "planner/guardrails.h"

#include <gtest/gtest.h>

#include <deque>

#include "core/random.h"
#include "planner/planner_testing.h"

namespace penstock::planner {
namespace {

using signals::PoolObservation;
using testing::at_s;
using testing::engine;
using testing::pool_of;
using testing::with_kv;
using testing::with_starting;

// One pool under guardrails, asked at moments in seconds; samples are fresh unless they are said to be older.
class Guarded {
 public:
  PoolDecision wish(double seconds, PoolObservation pool, std::uint32_t target, double age_s = 0.0) {
    for (auto& replica : pool.replicas)
      if (replica.sample) replica.sample->sampled_at = at_s(seconds - age_s);
    PoolDecision proposal;
    proposal.target = target;
    proposal.reason = Reason::kCheapestThatKeepsSlo;
    return guardrails_.apply(at_s(seconds), pool, proposal);
  }
  // The same wish every 30 s for five minutes, after which the stabilisation window holds nothing else.
  void settle(const PoolObservation& pool, std::uint32_t target) {
    for (double seconds = 0.0; seconds < 300.0; seconds += 30.0) (void)wish(seconds, pool, target);
  }

 private:
  Guardrails guardrails_;
};

TEST(Guardrails, LetAWishWithinAllLimitsThrough) {
  Guarded guarded;
  EXPECT_DECISION(guarded.wish(0, pool_of(4, engine(0)), 6), 6, kCheapestThatKeepsSlo, kNone);
}

TEST(Guardrails, GrowAtMostThreefoldAMinute) {
  Guarded guarded;
  EXPECT_DECISION(guarded.wish(0, pool_of(4, engine(0)), 50), 12, kCheapestThatKeepsSlo, kGrowthRate);
  EXPECT_DECISION(guarded.wish(30, pool_of(12, engine(0)), 50), 12, kCheapestThatKeepsSlo, kGrowthRate);
  EXPECT_DECISION(guarded.wish(61, pool_of(12, engine(0)), 50), 36, kCheapestThatKeepsSlo, kGrowthRate);
}

TEST(Guardrails, LetASmallFleetGrowByFour) {
  Guarded guarded;
  EXPECT_DECISION(guarded.wish(0, pool_of(1, engine(0)), 50), 5, kCheapestThatKeepsSlo, kGrowthRate);
}

TEST(Guardrails, ShrinkOnlyAfterTheStabilisationWindow) {
  Guarded guarded;
  EXPECT_DECISION(guarded.wish(0, pool_of(8, engine(0)), 7), 8, kCheapestThatKeepsSlo, kStabilization);
  EXPECT_DECISION(guarded.wish(299, pool_of(8, engine(0)), 7), 8, kCheapestThatKeepsSlo, kStabilization);
  EXPECT_DECISION(guarded.wish(300, pool_of(8, engine(0)), 7), 7, kCheapestThatKeepsSlo, kNone);
}

TEST(Guardrails, ShrinkToTheMostThatWasWishedMeanwhile) {
  Guarded guarded;
  guarded.settle(pool_of(8, engine(0)), 4);
  (void)guarded.wish(310, pool_of(8, engine(0)), 7);
  EXPECT_DECISION(guarded.wish(400, pool_of(8, engine(0)), 4), 7, kCheapestThatKeepsSlo, kStabilization);
}

TEST(Guardrails, ShrinkByAThirdAMinute) {
  Guarded guarded;
  guarded.settle(pool_of(12, engine(0)), 1);
  EXPECT_DECISION(guarded.wish(301, pool_of(12, engine(0)), 1), 8, kCheapestThatKeepsSlo, kShrinkRate);
  EXPECT_DECISION(guarded.wish(331, pool_of(8, engine(0)), 1), 8, kCheapestThatKeepsSlo, kShrinkRate);
  EXPECT_DECISION(guarded.wish(362, pool_of(8, engine(0)), 1), 6, kCheapestThatKeepsSlo, kShrinkRate);
}

struct Danger {
  const char* name;
  signals::PoolObservation pool;
  double age_s;
  Limit limit;
};

TEST(Guardrails, NeverShrinkInDanger) {
  auto waiting = pool_of(4, engine(0));
  waiting.replicas[2].sample->oldest_queued_age = std::chrono::seconds{1};
  auto unrouted = pool_of(4, engine(0));
  unrouted.unrouted_requests = 1;
  auto draining = pool_of(4, engine(0));
  draining.draining = 1;
  auto failing = pool_of(4, engine(0));
  failing.failed_total = 1;
  const std::vector<Danger> dangers = {
      {"old telemetry", pool_of(4, engine(0)), 31.0, Limit::kStaleTelemetry},
      {"telemetry of the future", pool_of(4, engine(0)), -1.0, Limit::kStaleTelemetry},
      {"missing telemetry", testing::without_samples_of_last(pool_of(4, engine(0)), 1), 0.0, Limit::kStaleTelemetry},
      {"a start under way", with_starting(pool_of(3, engine(0)), 1), 0.0, Limit::kScalingUnderWay},
      {"a drain under way", draining, 0.0, Limit::kScalingUnderWay},
      {"a hot KV cache", pool_of(4, with_kv(0.76)), 0.0, Limit::kHotKvCache},
      {"a queue", waiting, 0.0, Limit::kQueueWaits},
      {"requests without a replica", unrouted, 0.0, Limit::kQueueWaits},
      {"failed requests", failing, 0.0, Limit::kFailures},
  };
  for (const Danger& danger : dangers) {
    SCOPED_TRACE(danger.name);
    Guarded guarded;
    guarded.settle(pool_of(4, engine(0)), 2);
    const PoolDecision decision = guarded.wish(305, danger.pool, 2, danger.age_s);
    EXPECT_EQ(decision.target, 4U);
    EXPECT_STREQ(to_string(decision.limited_by), to_string(danger.limit));
  }
}

TEST(Guardrails, StayWithinTheBoundsOfThePool) {
  Guarded guarded;
  EXPECT_DECISION(guarded.wish(0, testing::bounded(pool_of(4, engine(0)), 1, 6), 9), 6, kCheapestThatKeepsSlo,
                  kMaxReplicas);
  EXPECT_DECISION(guarded.wish(1, testing::bounded(pool_of(4, engine(0)), 5, 9), 4), 5, kCheapestThatKeepsSlo,
                  kMinReplicas);
}

// Whatever is observed and wished, the promises of the header hold.
TEST(GuardrailsProperty, HoldWhateverIsProposed) {
  std::uint32_t grown = 0, shrunk = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    core::RandomStream random{seed};
    const GuardrailOptions options;
    Guardrails guardrails{options};
    std::uint32_t target = static_cast<std::uint32_t>(1 + random.below(20));
    std::deque<std::pair<double, std::uint32_t>> wishes, targets;
    double now = 0.0, last_shrunk = -1e9;
    for (int tick = 0; tick < 300; ++tick) {
      now += 5.0;
      signals::PoolObservation pool = pool_of(target, random.below(12) == 0 ? with_kv(0.8) : engine(0));
      pool.min_replicas = static_cast<std::uint32_t>(1 + random.below(2));
      pool.max_replicas = static_cast<std::uint32_t>(20 + random.below(20));
      const bool stale = random.below(15) == 0, starting = random.below(15) == 0;
      for (auto& replica : pool.replicas) replica.sample->sampled_at = at_s(now - (stale ? 60.0 : 0.0));
      pool.starting = starting ? 1 : 0;
      PoolDecision proposal;
      const std::uint64_t mood = (seed + static_cast<std::uint64_t>(tick) / 90) % 3;
      proposal.target = static_cast<std::uint32_t>(mood == 0 ? random.below(4) : mood == 1 ? random.below(60) : target);
      wishes.emplace_back(now, proposal.target);
      while (wishes.front().first <= now - 300.0) wishes.pop_front();
      targets.emplace_back(now, target);
      while (targets.front().first <= now - 60.0) targets.pop_front();

      const PoolDecision decision = guardrails.apply(at_s(now), pool, proposal);
      ASSERT_EQ(decision.current, target);
      ASSERT_GE(decision.target, pool.min_replicas);
      ASSERT_LE(decision.target, pool.max_replicas);
      if (decision.target != proposal.target) {
        ASSERT_NE(decision.limited_by, Limit::kNone);
      }
      if (decision.target > target && target >= pool.min_replicas) {
        ++grown;
        std::uint32_t least = target;
        for (const auto& entry : targets) least = std::min(least, entry.second);
        ASSERT_LE(decision.target, std::max(3 * least, least + 4));
      }
      if (decision.target < target && target <= pool.max_replicas) {
        ++shrunk;
        ASSERT_FALSE(stale || starting || pool.replicas[0].sample->kv_usage() > 0.75);
        ASSERT_GE(now - last_shrunk, 60.0);
        for (const auto& entry : wishes) ASSERT_GE(decision.target, std::min(entry.second, target));
        last_shrunk = now;
      }
      target = decision.target;
    }
  }
  EXPECT_GT(grown, 1000U);
  EXPECT_GT(shrunk, 300U);
}

}  // namespace
}  // namespace penstock::planner
