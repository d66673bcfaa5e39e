#include "capacity/concurrency_limit.h"

#include <gtest/gtest.h>

namespace penstock::capacity {
namespace {

// Replica 0 reports every five seconds.
class ConcurrencyLimitTest : public ::testing::Test {
 protected:
  void report(std::uint32_t running, std::uint32_t queued, std::optional<double> kv_share = 0.2) {
    now += std::chrono::seconds{5};
    signals::PoolObservation pool;
    pool.role = role;
    signals::EngineSample sample;
    sample.sampled_at = now;
    sample.running_requests = running;
    sample.queued_requests = queued;
    sample.oldest_queued_age = oldest;
    sample.kv_share = kv_share;
    pool.replicas.push_back({0, signals::ReplicaState::kReady, {}, sample});
    sample.running_requests = other_runs;
    sample.queued_requests = 0;
    pool.replicas.push_back({1, signals::ReplicaState::kReady, {}, sample});
    limit.observe(pool);
    limit.observe(pool);  // The same sample counts once.
  }

  signals::Role role = signals::Role::kAggregated;
  std::optional<core::Duration> oldest;
  std::uint32_t other_runs = 0;
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

TEST_F(ConcurrencyLimitTest, IsDisprovedByAReplicaThatRunsMore) {
  for (int i = 0; i < 3; ++i) report(4, 9);
  EXPECT_EQ(limit.sequences(), 4U);
  report(16, 0);
  EXPECT_EQ(limit.sequences(), std::nullopt);
  for (int i = 0; i < 10; ++i) report(4, 9);
  EXPECT_EQ(limit.sequences(), std::nullopt);
  for (int i = 0; i < 8; ++i) report(16, 9);
  EXPECT_EQ(limit.sequences(), 16U);
}

TEST_F(ConcurrencyLimitTest, AnotherReplicaThatRunsMoreDisprovesIt) {
  other_runs = 12;
  for (int i = 0; i < 20; ++i) report(3, 9);
  EXPECT_EQ(limit.sequences(), std::nullopt);
}

TEST_F(ConcurrencyLimitTest, AShortWaitMayBeForTheEndOfAnIteration) {
  oldest = std::chrono::milliseconds{800};
  for (int i = 0; i < 20; ++i) report(3, 2);
  EXPECT_EQ(limit.sequences(), std::nullopt);
  oldest = std::chrono::seconds{4};
  for (int i = 0; i < 3; ++i) report(3, 2);
  EXPECT_EQ(limit.sequences(), 3U);
}

TEST_F(ConcurrencyLimitTest, PrefillReplicasHaveNone) {
  role = signals::Role::kPrefill;
  for (int i = 0; i < 20; ++i) report(1, 9);
  EXPECT_EQ(limit.sequences(), std::nullopt);
}

}  // namespace
}  // namespace penstock::capacity
