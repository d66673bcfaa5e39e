#include "planner/penstock/backlog.h"

#include <gtest/gtest.h>

#include <chrono>

namespace penstock::planner {
namespace {

using namespace std::chrono_literals;

// Ten replicas that complete as many requests as a minute brings, 10/s.
signals::PoolObservation pool_of(std::uint32_t waiting, std::uint64_t arrivals, std::uint64_t completed) {
  signals::PoolObservation pool;
  pool.target_replicas = pool.ready = 10;
  pool.last_minute.length = 60s;
  pool.last_minute.arrivals = arrivals;
  pool.last_minute.completed = completed;
  for (std::uint32_t i = 0; i < pool.ready; ++i) {
    signals::ReplicaObservation& replica = pool.replicas.emplace_back();
    replica.state = signals::ReplicaState::kReady;
    replica.sample.emplace();
    replica.sample->queued_requests = waiting / pool.ready;
  }
  return pool;
}

TEST(Backlog, NoQueueAddsNothing) {
  EXPECT_EQ(fleet_for_backlog(pool_of(0, 1200, 600), 10, 120s), 10U);
  EXPECT_EQ(fleet_for_backlog({}, 10, 120s), 10U);
}

// A replica serves one request per second. The queue of 600 is cleared in the two minutes after a start of two minutes.
TEST(Backlog, AQueueIsClearedInTheTimeOfAStart) {
  EXPECT_EQ(fleet_for_backlog(pool_of(600, 600, 600), 10, 120s), 15U);
  EXPECT_EQ(fleet_for_backlog(pool_of(50, 600, 600), 10, 120s), 10U);
}

TEST(Backlog, ShortStartsHaveAMinute) { EXPECT_EQ(fleet_for_backlog(pool_of(300, 600, 600), 10, 5s), 15U); }

// Fifteen replicas serve the 15 requests that arrive per second. Until five of them are ready, the queue grows by 5/s.
TEST(Backlog, TheQueueGrowsUntilReplicasAreReady) {
  EXPECT_EQ(fleet_for_backlog(pool_of(120, 900, 600), 15, 120s), 21U);
  signals::PoolObservation pool = pool_of(120, 900, 600);
  pool.starting = 5;  // Ready in one minute.
  EXPECT_EQ(fleet_for_backlog(pool, 15, 120s), 19U);
}

TEST(Backlog, AFleetThatClearsItInTimeSuffices) {
  EXPECT_EQ(fleet_for_backlog(pool_of(300, 300, 600), 10, 120s), 10U);
  EXPECT_EQ(fleet_for_backlog(pool_of(300, 300, 600), 4, 120s), 4U);
}

TEST(Backlog, TheFleetAtMostDoubles) {
  EXPECT_EQ(fleet_for_backlog(pool_of(1'000'000, 600, 600), 10, 120s), 20U);
  EXPECT_EQ(fleet_for_backlog(pool_of(1'000'000, 600, 0), 12, 120s), 24U);
}

TEST(Backlog, RequestsWithoutAReplicaWaitAsWell) {
  signals::PoolObservation pool = pool_of(0, 600, 600);
  pool.unrouted_requests = 600;
  EXPECT_EQ(fleet_for_backlog(pool, 10, 120s), 15U);
}

}  // namespace
}  // namespace penstock::planner
