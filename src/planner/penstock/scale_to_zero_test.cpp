#include "planner/penstock/scale_to_zero.h"

#include <gtest/gtest.h>

#include <chrono>
#include <vector>

#include "forecast/cron.h"
#include "planner/penstock/course_testing.h"
#include "planner/planner_testing.h"

namespace penstock::planner {
namespace {

using signals::Observation;
using signals::PoolObservation;
using std::chrono::minutes;
using testing::at_s;
using testing::bounded;
using testing::Course;
using testing::engine;
using testing::pool_of;
using testing::quick;

PoolObservation pool_with(std::uint32_t replicas, std::uint32_t least = 0,
                          signals::Role role = signals::Role::kAggregated) {
  PoolObservation pool = bounded(pool_of(replicas, engine(0), role), least, 8);
  pool.role = role;
  return pool;
}

Observation observed(double now_s, std::vector<PoolObservation> pools) {
  Observation made;
  made.now = at_s(now_s);
  made.pools = std::move(pools);
  return made;
}

TEST(ScaleToZero, APoolNeedsNoReplicaAfterTheTimeWithoutRequests) {
  ScaleToZero zero{minutes{10}};
  zero.observe(observed(0.0, {pool_with(2)}));
  zero.observe(observed(599.0, {pool_with(2)}));
  EXPECT_FALSE(zero.needs_none(0));
  zero.observe(observed(600.0, {pool_with(2)}));
  EXPECT_TRUE(zero.needs_none(0));
  EXPECT_EQ(zero.idle_time(0), minutes{10});
}

TEST(ScaleToZero, AMinimumAboveZeroStays) {
  ScaleToZero zero{minutes{10}};
  for (const double now_s : {0.0, 10'000.0}) zero.observe(observed(now_s, {pool_with(2, 1)}));
  EXPECT_FALSE(zero.needs_none(0));
}

TEST(ScaleToZero, AnArrivalARunningAndAWaitingRequestEachCountAsRequests) {
  PoolObservation arrival = pool_with(1), running = pool_with(1), waiting = pool_with(1);
  arrival.arrivals_total = 1;
  running.replicas[0].sample->running_requests = 1;
  waiting.unrouted_requests = 1;
  for (const PoolObservation& busy : {arrival, running, waiting}) {
    ScaleToZero zero{minutes{10}};
    PoolObservation idle = pool_with(1);
    zero.observe(observed(0.0, {idle}));
    zero.observe(observed(500.0, {busy}));
    idle.arrivals_total = busy.arrivals_total;
    zero.observe(observed(1000.0, {idle}));
    EXPECT_FALSE(zero.needs_none(0));
    zero.observe(observed(1100.0, {idle}));
    EXPECT_TRUE(zero.needs_none(0));
  }
}

TEST(ScaleToZero, AnEngineWithoutTelemetryMayHaveRequests) {
  ScaleToZero zero{minutes{10}};
  PoolObservation unknown = pool_with(1);
  unknown.replicas[0].sample.reset();
  for (const double now_s : {0.0, 10'000.0}) zero.observe(observed(now_s, {unknown}));
  EXPECT_FALSE(zero.needs_none(0));
}

TEST(ScaleToZero, TheFirstReplicaIsNeededAsSoonAsARequestArrivesOrWaits) {
  ScaleToZero zero{minutes{10}};
  PoolObservation none = pool_with(0);
  zero.observe(observed(0.0, {none}));
  EXPECT_TRUE(zero.needs_none(0));
  EXPECT_FALSE(zero.needs_first(0));
  none.unrouted_requests = 1;
  zero.observe(observed(5.0, {none}));
  EXPECT_FALSE(zero.needs_none(0));
  EXPECT_TRUE(zero.needs_first(0));
  none.unrouted_requests = 0;
  none.arrivals_total = 1;
  zero.observe(observed(10.0, {none}));  // Its client has left meanwhile.
  EXPECT_TRUE(zero.needs_first(0));
}

TEST(ScaleToZero, RequestsOfReplicasThatDrainNeedNoOther) {
  ScaleToZero zero{minutes{10}};
  PoolObservation draining = pool_with(1);
  draining.replicas[0].sample->running_requests = 1;
  draining.target_replicas = 0;
  for (const double now_s : {0.0, 5.0}) zero.observe(observed(now_s, {draining}));
  EXPECT_TRUE(zero.needs_none(0));
  EXPECT_FALSE(zero.needs_first(0));
}

TEST(ScaleToZero, APrefillAndADecodePoolAreOne) {
  ScaleToZero zero{minutes{10}};
  PoolObservation prefill = pool_with(1, 0, signals::Role::kPrefill), decode = pool_with(1, 0, signals::Role::kDecode);
  zero.observe(observed(0.0, {prefill, decode}));
  decode.replicas[0].sample->running_requests = 1;
  zero.observe(observed(700.0, {prefill, decode}));
  EXPECT_FALSE(zero.needs_none(0));
  PoolObservation no_prefill = pool_with(0, 0, signals::Role::kPrefill);
  no_prefill.unrouted_requests = 3;
  zero.observe(observed(705.0, {no_prefill, pool_with(0, 0, signals::Role::kDecode)}));
  EXPECT_TRUE(zero.needs_first(0));
  EXPECT_TRUE(zero.needs_first(1));
}

TEST(ScaleToZero, OnePoolOfSeveralHasItsOwnRequests) {
  ScaleToZero zero{minutes{10}};
  PoolObservation busy = pool_with(2);
  for (const double now_s : {0.0, 300.0, 600.0}) {
    zero.observe(observed(now_s, {busy, pool_with(1)}));
    ++busy.arrivals_total;
  }
  EXPECT_FALSE(zero.needs_none(0));
  EXPECT_TRUE(zero.needs_none(1));
}

TEST(ScaleToZero, AClockThatGoesBackEndsNoIdleTimeEarly) {
  ScaleToZero zero{minutes{10}};
  zero.observe(observed(10'000.0, {pool_with(1)}));
  zero.observe(observed(5'000.0, {pool_with(1)}));
  EXPECT_EQ(zero.idle_time(0), core::Duration{});
  zero.observe(observed(5'599.0, {pool_with(1)}));
  EXPECT_FALSE(zero.needs_none(0));
  zero.observe(observed(5'600.0, {pool_with(1)}));
  EXPECT_TRUE(zero.needs_none(0));
}

TEST(ScaleToZero, ItsStateIsAValue) {
  ScaleToZero zero{minutes{10}}, restored{minutes{10}};
  zero.observe(observed(0.0, {pool_with(1)}));
  core::StateArchive saved;
  zero.archive(saved);
  core::StateArchive read{saved.text()};
  restored.archive(read);
  ASSERT_TRUE(read.finish().has_value());
  restored.observe(observed(600.0, {pool_with(1)}));
  EXPECT_TRUE(restored.needs_none(0));
}

TEST(ScaleToZero, ARestartedPlannerWhoseCountersBeginAnewStartsNoReplica) {
  ScaleToZero zero{minutes{10}}, restored{minutes{10}};
  PoolObservation none = pool_with(0);
  none.arrivals_total = 500;
  zero.observe(observed(0.0, {none}));
  core::StateArchive saved;
  zero.archive(saved);
  core::StateArchive read{saved.text()};
  restored.archive(read);
  ASSERT_TRUE(read.finish().has_value());
  none.arrivals_total = 0;
  restored.observe(observed(5.0, {none}));
  EXPECT_TRUE(restored.needs_none(0));
  ++none.arrivals_total;
  restored.observe(observed(10.0, {none}));
  EXPECT_TRUE(restored.needs_first(0));
}

// ---- with the planner -----------------------------------------------------------------------------------------------

TEST(ScaleToZero, TheFleetGoesToZeroStepByStepAndComesBackForARequest) {
  PlannerOptions options = quick();
  options.guardrails.minimum_endpoints = 2;  // Of a fleet with requests.
  Course run{options};
  bool waits = false;
  run.change = [&](Observation& seen) {
    seen.pools[0].min_replicas = 0;
    if (waits && seen.pools[0].target_replicas == 0) seen.pools[0].unrouted_requests = 1;
  };
  (void)run.at_rate(16.0, 600);
  EXPECT_GT(run.fleet[0], 2U);
  run.changes.clear();
  (void)run.at_rate(0.0, 1190);
  EXPECT_GT(run.fleet[0], 0U);
  EXPECT_DECISION(run.at_rate(0.0, 3000).pools[0], 0, kScaledToZero, kNone);
  for (std::size_t i = 1; i < run.changes.size(); ++i)
    EXPECT_GE(run.changes[i].second + run.changes[i - 1].second / 3 + 1, run.changes[i - 1].second);
  EXPECT_DECISION(run.at_rate(0.0, 20'000).pools[0], 0, kScaledToZero, kNone);
  waits = true;
  EXPECT_DECISION(run.at_rate(0.0, 20'005).pools[0], 1, kFirstReplica, kNone);
  waits = false;
  EXPECT_EQ(run.at_rate(0.0, 20'500).pools[0].target, 1U);
  EXPECT_EQ(run.at_rate(0.0, 22'000).pools[0].target, 0U);
}

TEST(ScaleToZero, AScheduleStartsReplicasOfAPoolWithoutRequestsAndEndsThem) {
  PlannerOptions options = quick();
  options.schedule.floors = {{"", *forecast::make_floor("0 1 * * *", {}, std::chrono::hours{1}, 3)}};
  Course run{options};
  run.change = [](Observation& seen) { seen.pools[0].min_replicas = 0; };
  EXPECT_EQ(run.at_rate(0.0, 3000).pools[0].target, 0U);
  EXPECT_DECISION(run.at_rate(0.0, 3700).pools[0], 3, kSchedule, kNone);
  EXPECT_EQ(run.at_rate(0.0, 7000).pools[0].target, 3U);
  EXPECT_DECISION(run.at_rate(0.0, 9000).pools[0], 0, kScaledToZero, kNone);
}

TEST(ScaleToZero, AnEarlyPhaseAndAMinimumOfOneKeepAReplica) {
  for (const bool early : {true, false}) {
    PlannerOptions options = quick();
    if (early) options.phase = RolloutPhase::kGuardrails;
    Course run{options};
    run.change = [&](Observation& seen) { seen.pools[0].min_replicas = early ? 0 : 1; };
    (void)run.at_rate(16.0, 600);
    EXPECT_GE(run.at_rate(0.0, 6000).pools[0].target, 1U);
  }
}

}  // namespace
}  // namespace penstock::planner
