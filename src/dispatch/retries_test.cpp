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
  EXPECT_TRUE(dispatcher->may_retry(answer.ticket, kNow));
  dispatcher->attempt_ended(answer.ticket, Attempt::kFaulted, kNow);
  ASSERT_TRUE(dispatcher->route_again(answer.ticket, kNow));
  EXPECT_FALSE(dispatcher->may_retry(answer.ticket, kNow)) << "its retry is used up";
  for (int i = 0; i < 9; ++i) {
    const ArrivalResult other = arrive(info_of(400));
    dispatcher->attempt_ended(other.ticket, Attempt::kBusy, kNow);
    ASSERT_TRUE(dispatcher->route_again(other.ticket, kNow));
  }
  const ArrivalResult late = arrive(info_of(400));
  EXPECT_FALSE(dispatcher->may_retry(late.ticket, kNow)) << "the budget for retries is used up";
  EXPECT_FALSE(dispatcher->may_retry(0, kNow));
}

// However many requests there were before, an outage gets the retries that the traffic of the last minute allows.
TEST_F(RetriesTest, TheBudgetIsThatOfTheTrafficOfTheLastMinute) {
  DispatchOptions made = options_for_tests();
  made.retries = 1;
  made.retry_share = 0.1;
  made.circuit_breaker.failures = CircuitBreakerOptions::kNever;
  open(made);
  dispatcher->set_replicas({replica_named("r1"), replica_named("r2")}, kNow);
  core::Instant now = kNow;
  // Ten requests a second, of which every attempt fails if `fails`. Returns the number of retries.
  const auto serve = [&](int seconds, bool fails) {
    const std::uint64_t before = dispatcher->counters().retried;
    for (int i = 0; i < 10 * seconds; ++i, now += std::chrono::milliseconds{100}) {
      RequestInfo info = info_of(40);
      info.received_at = now;
      const ArrivalResult result = dispatcher->arrive(info, listener, now);
      EXPECT_TRUE(result.grant);
      RequestOutcome outcome;
      if (fails) {
        dispatcher->attempt_ended(result.ticket, Attempt::kFaulted, now);
        static_cast<void>(dispatcher->route_again(result.ticket, now));
        outcome.outcome = ledger::Outcome::kFailed;
        outcome.attempt = Attempt::kFaulted;
      }
      dispatcher->ended(result.ticket, outcome, now);
    }
    return dispatcher->counters().retried - before;
  };
  EXPECT_EQ(serve(3600, false), 0U);
  // 600 requests a minute allow 60 retries, and ten more.
  const std::uint64_t first = serve(60, true);
  EXPECT_GE(first, 60U);
  EXPECT_LE(first, 75U);
  const std::uint64_t next = serve(240, true);
  EXPECT_GE(next, 4 * 60U);
  EXPECT_LE(next, 4 * 75U) << "the budget is not one for the whole life of the gateway";
  now += std::chrono::minutes{10};
  EXPECT_EQ(serve(1, true), 10U) << "a quiet gateway retries, too";
}

TEST_F(RetriesTest, TheLastReplicaLeavesNoRetry) {
  open();
  const ReplicaSpec first = replica_named("r1"), second = replica_named("r2");
  dispatcher->set_replicas({first}, kNow);
  const ArrivalResult answer = arrive(info_of(400));
  EXPECT_FALSE(dispatcher->may_retry(answer.ticket, kNow));
  dispatcher->set_replicas({first, second}, kNow);
  EXPECT_TRUE(dispatcher->may_retry(answer.ticket, kNow));
  dispatcher->set_health(*dispatcher->slot_of("r2"), ReplicaHealth::kUnhealthy, kNow);
  EXPECT_FALSE(dispatcher->may_retry(answer.ticket, kNow));
}

TEST_F(RetriesTest, APrefillReplicaIsARetryOnlyWithADecodeReplica) {
  open();
  const ReplicaSpec whole = replica_named("r1"), prefill = replica_named("p1", signals::Role::kPrefill);
  dispatcher->set_replicas({whole, prefill}, kNow);
  const ArrivalResult answer = arrive(info_of(400));
  EXPECT_FALSE(dispatcher->may_retry(answer.ticket, kNow));
  dispatcher->set_replicas({whole, prefill, replica_named("d1", signals::Role::kDecode)}, kNow);
  EXPECT_TRUE(dispatcher->may_retry(answer.ticket, kNow));
}

}  // namespace
}  // namespace penstock::dispatch
