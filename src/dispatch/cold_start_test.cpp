// Requests that arrive while no replica may take them.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "dispatch/dispatcher_testing.h"

namespace penstock::dispatch {
namespace {

using namespace std::chrono_literals;
using testing::info_of;
using testing::replica_named;

constexpr core::Instant kNow{1h};

class ColdStartTest : public ::testing::Test {
 protected:
  void open(DispatchOptions made) {
    made.interactive.queue_time = 10s;
    made.interactive.cold_start_queue_time = 5min;
    dispatcher = std::make_unique<Dispatcher>(std::move(made), nullptr, kNow, core::Duration{});
  }
  Ticket arrive(core::Instant now) {
    RequestInfo info = info_of(400);
    info.received_at = now;
    const ArrivalResult result = dispatcher->arrive(info, listener, now);
    EXPECT_FALSE(result.refusal);
    return result.ticket;
  }

  testing::TestListener listener;
  std::unique_ptr<Dispatcher> dispatcher;
};

TEST_F(ColdStartTest, ARequestWaitsLongerForTheFirstReplica) {
  open(testing::options_for_tests());
  const Ticket ticket = arrive(kNow);
  dispatcher->tick(kNow + 4min);
  EXPECT_TRUE(listener.refusals.empty());
  dispatcher->set_replicas({replica_named("r1")}, kNow + 4min);
  EXPECT_TRUE(listener.grants.contains(ticket));
}

TEST_F(ColdStartTest, TheWaitEndsAndItsLimitIsNamed) {
  open(testing::options_for_tests());
  const Ticket ticket = arrive(kNow);
  dispatcher->tick(kNow + 5min + 1s);
  ASSERT_TRUE(listener.refusals.contains(ticket));
  const Refusal& refusal = listener.refusals.at(ticket);
  EXPECT_EQ(refusal.reason, RefusalReason::kNoReplica);
  EXPECT_NE(refusal.message.find("classes.interactive.cold_start_queue_time"), std::string::npos) << refusal.message;
}

TEST_F(ColdStartTest, AFullReplicaIsNoColdStart) {
  DispatchOptions options = testing::options_for_tests();
  options.pressure.prefill_tokens_per_replica = 1;
  open(std::move(options));
  dispatcher->set_replicas({replica_named("r1")}, kNow);
  RequestInfo info = info_of(400);
  info.received_at = kNow;
  ASSERT_TRUE(dispatcher->arrive(info, listener, kNow).grant);
  const Ticket waits = arrive(kNow);
  dispatcher->tick(kNow + 11s);
  ASSERT_TRUE(listener.refusals.contains(waits));
  EXPECT_EQ(listener.refusals.at(waits).reason, RefusalReason::kQueueTimeout);
}

TEST_F(ColdStartTest, AReplicaOfAnotherPoolCountsOnlyIfItMayTakeTheRequest) {
  for (const bool takes_all : {true, false}) {
    DispatchOptions options = testing::options_for_tests();
    options.pools.resize(2);
    options.pools[0].name = "batch";
    options.pools[0].traffic_class = "batch";
    if (!takes_all) options.pools[0].prompt_max = 10;
    options.pools[1].name = "chat";
    open(std::move(options));
    listener = {};
    ReplicaSpec other = replica_named("r1");
    other.pool = "batch";
    dispatcher->set_replicas({other}, kNow);
    RequestInfo info = info_of(400);
    info.received_at = kNow;
    const ArrivalResult result = dispatcher->arrive(info, listener, kNow);
    EXPECT_EQ(result.grant.has_value(), takes_all);
    dispatcher->tick(kNow + 4min);
    EXPECT_TRUE(listener.refusals.empty());
  }
}

TEST_F(ColdStartTest, APrefillReplicaAloneIsNoReplica) {
  open(testing::options_for_tests());
  dispatcher->set_replicas({replica_named("p1", signals::Role::kPrefill)}, kNow);
  RequestInfo info = info_of(400);
  info.received_at = kNow;
  info.splits = true;
  const ArrivalResult result = dispatcher->arrive(info, listener, kNow);
  dispatcher->tick(kNow + 4min);
  EXPECT_TRUE(listener.refusals.empty());
  dispatcher->set_replicas({replica_named("p1", signals::Role::kPrefill), replica_named("d1", signals::Role::kDecode)},
                           kNow + 4min);
  EXPECT_TRUE(listener.grants.contains(result.ticket));
}

}  // namespace
}  // namespace penstock::dispatch
