#include "capacity/concurrency_limit.h"

#include <gtest/gtest.h>

namespace penstock::capacity {
namespace {

// Replica 0 reports every five seconds.
class ConcurrencyLimitTest : public testing::Test {
 protected:
  void report(std::uint32_t running, std::uint32_t queued, std::optional<double> kv_share = 0.2) {
    now += std::chrono::seconds{5};
    signals::PoolObservation pool;
    pool.role = role;
    signals::EngineSample sample;
    sample.sampled_at = now;
    sample.running_requests = running;
    sample.queued_requests = queued;
    sample.kv_share = kv_share;
    pool.replicas.push_back({0, signals::ReplicaState::kReady, {}, sample});
    limit.observe(pool);
    limit.observe(pool);  // The same sample counts once.
  }

  signals::Role role = signals::Role::kAggregated;
  core::Instant now;
  ConcurrencyLimit limit;
};

TEST_F(ConcurrencyLimitTest, IsTheNumberThatRunsWhileOthersWait) {
  report(2, 5);
  report(2, 9);
  EXPECT_EQ(limit.sequences(), std::nullopt);
  report(1, 20);  // Between two iterations.
  report(2, 30);
  EXPECT_EQ(limit.sequences(), 2U);
}

TEST_F(ConcurrencyLimitTest, IsUnknownWithoutAQueue) {
  for (int i = 0; i < 50; ++i) report(7, 0);
  EXPECT_EQ(limit.sequences(), std::nullopt);
}

TEST_F(ConcurrencyLimitTest, IsNotLearnedFromShortQueuesAtDifferentLoads) {
  for (std::uint32_t i = 1; i < 60; ++i) report(3 + i * 7 % 23, 1);
  EXPECT_EQ(limit.sequences(), std::nullopt);
}

TEST_F(ConcurrencyLimitTest, AFullKvCacheIsAnotherReasonToWait) {
  for (int i = 0; i < 20; ++i) report(4, 9, 0.97);
  EXPECT_EQ(limit.sequences(), std::nullopt);
}

TEST_F(ConcurrencyLimitTest, NeedsNoKvUsage) {
  for (int i = 0; i < 3; ++i) report(4, 9, std::nullopt);
  EXPECT_EQ(limit.sequences(), 4U);
}

TEST_F(ConcurrencyLimitTest, IsRaisedByAReplicaThatRunsMore) {
  for (int i = 0; i < 3; ++i) report(4, 9);
  report(16, 0);
  EXPECT_EQ(limit.sequences(), 16U);
}

TEST_F(ConcurrencyLimitTest, PrefillReplicasHaveNone) {
  role = signals::Role::kPrefill;
  for (int i = 0; i < 20; ++i) report(1, 9);
  EXPECT_EQ(limit.sequences(), std::nullopt);
}

}  // namespace
}  // namespace penstock::capacity
