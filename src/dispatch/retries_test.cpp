// Whether a request could go to another replica if its present attempt failed.
#include <gtest/gtest.h>

#include <memory>

#include "dispatch/dispatcher_testing.h"

namespace penstock::dispatch {
namespace {

using namespace testing;

constexpr core::Instant kNow = core::kStart + std::chrono::seconds{100};

class RetriesTest : public ::testing::Test {
 protected:
  void open(DispatchOptions made = options_for_tests()) {
    dispatcher = std::make_unique<Dispatcher>(std::move(made), nullptr, kNow, core::Duration{});
  }
  ArrivalResult arrive(RequestInfo info) {
    info.received_at = kNow;
    return dispatcher->arrive(info, listener, kNow);
  }

  TestListener listener;
  std::unique_ptr<Dispatcher> dispatcher;
};

TEST_F(RetriesTest, ARetryIsPossibleWhileAnotherReplicaAndTheRetryBudgetAllowIt) {
  DispatchOptions made = options_for_tests();
  made.retries = 1;
  made.retry_share = 0.0;
  open(made);
  dispatcher->set_replicas({replica_named("r1"), replica_named("r2"), replica_named("r3")}, kNow);
  const ArrivalResult answer = arrive(info_of(400));
  EXPECT_TRUE(dispatcher->may_retry(answer.ticket));
  dispatcher->attempt_ended(answer.ticket, Attempt::kFaulted, kNow);
  ASSERT_TRUE(dispatcher->route_again(answer.ticket, kNow));
  EXPECT_FALSE(dispatcher->may_retry(answer.ticket)) << "its retry is used up";
  for (int i = 0; i < 9; ++i) {
    const ArrivalResult other = arrive(info_of(400));
    dispatcher->attempt_ended(other.ticket, Attempt::kBusy, kNow);
    ASSERT_TRUE(dispatcher->route_again(other.ticket, kNow));
  }
  const ArrivalResult late = arrive(info_of(400));
  EXPECT_FALSE(dispatcher->may_retry(late.ticket)) << "the budget for retries is used up";
  EXPECT_FALSE(dispatcher->may_retry(0));
}

TEST_F(RetriesTest, TheLastReplicaLeavesNoRetry) {
  open();
  const ReplicaSpec first = replica_named("r1"), second = replica_named("r2");
  dispatcher->set_replicas({first}, kNow);
  const ArrivalResult answer = arrive(info_of(400));
  EXPECT_FALSE(dispatcher->may_retry(answer.ticket));
  dispatcher->set_replicas({first, second}, kNow);
  EXPECT_TRUE(dispatcher->may_retry(answer.ticket));
  dispatcher->set_health(*dispatcher->slot_of("r2"), ReplicaHealth::kUnhealthy, kNow);
  EXPECT_FALSE(dispatcher->may_retry(answer.ticket));
}

TEST_F(RetriesTest, APrefillReplicaIsARetryOnlyWithADecodeReplica) {
  open();
  const ReplicaSpec whole = replica_named("r1"), prefill = replica_named("p1", signals::Role::kPrefill);
  dispatcher->set_replicas({whole, prefill}, kNow);
  const ArrivalResult answer = arrive(info_of(400));
  EXPECT_FALSE(dispatcher->may_retry(answer.ticket));
  dispatcher->set_replicas({whole, prefill, replica_named("d1", signals::Role::kDecode)}, kNow);
  EXPECT_TRUE(dispatcher->may_retry(answer.ticket));
}

}  // namespace
}  // namespace penstock::dispatch
