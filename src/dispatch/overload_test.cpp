// Overload policies at work in the dispatcher: refusals, shortened answers, counts, and reload.
#include <gtest/gtest.h>

#include "dispatch/dispatcher.h"
#include "dispatch/dispatcher_testing.h"

namespace penstock::dispatch {
namespace {

using namespace testing;
using namespace std::chrono_literals;
using admission::Class;
using admission::OverloadAction;

constexpr core::Instant kNow = core::kStart + 100s;
constexpr std::uint32_t kFreeTenant = 1;

class OverloadPolicyTest : public ::testing::Test {
 protected:
  // One replica takes one prompt at a time.
  void open(OverloadAction batch) {
    options = options_for_tests();
    options.tenants.resize(2);
    options.tenants[kFreeTenant].name = "free";
    options.pressure.prefill_tokens_per_replica = 1;
    options.interactive.overload = OverloadAction::kQueue;
    options.batch.overload = batch;
    dispatcher = std::make_unique<Dispatcher>(options, std::make_unique<TestSink>(opened, closed), kNow - 10s, 24h);
    dispatcher->set_replicas({replica_named("r1")}, kNow);
    running = arrive(Class::kInteractive);
    ASSERT_TRUE(running.grant);
  }
  ArrivalResult arrive(Class traffic_class, std::uint32_t tenant = 0, bool prefilled = false) {
    RequestInfo info = info_of(4000, tenant);
    info.prefilled = prefilled;
    info.traffic_class = traffic_class;
    info.max_tokens = 1000;
    info.stream = true;
    info.received_at = kNow;
    return dispatcher->arrive(info, listener, kNow);
  }
  void end(Ticket ticket) {
    RequestOutcome ending;
    ending.usage = TokenUsage{1000, 5, 0};
    ending.last_token_at = kNow;
    dispatcher->answered(ticket, kNow);
    dispatcher->ended(ticket, ending, kNow);
  }
  [[nodiscard]] OverloadCounts counts(Class traffic_class, const std::string& tenant = "anonymous") const {
    for (const SegmentOverload& segment : dispatcher->overview(kNow).overload)
      if (segment.traffic_class == traffic_class && segment.tenant == tenant) return segment.counts;
    return {};
  }
  void TearDown() override { EXPECT_EQ(dispatcher->invariant_violation(kNow + 1h), ""); }

  DispatchOptions options;
  std::vector<ledger::Entry> opened, closed;
  TestListener listener;
  std::unique_ptr<Dispatcher> dispatcher;
  ArrivalResult running;
};

// Counts are queue, degrade, drop and shed.
TEST_F(OverloadPolicyTest, ASegmentThatShedsIsRefusedWithRetryAfter) {
  open(OverloadAction::kShed);
  const ArrivalResult shed = arrive(Class::kBatch, kFreeTenant);
  ASSERT_TRUE(shed.refusal);
  EXPECT_EQ(shed.refusal->reason, RefusalReason::kEnginesFull);
  EXPECT_GE(shed.refusal->retry_after_s, 1U);
  EXPECT_TRUE(shed.is_work);  // More replicas would help.
  EXPECT_EQ(counts(Class::kBatch, "free"), (OverloadCounts{0, 0, 0, 1}));
  EXPECT_EQ(counts(Class::kBatch), OverloadCounts{});
}

TEST_F(OverloadPolicyTest, BatchRequestsThatShedLeaveRoomThatOthersUse) {
  open(OverloadAction::kShed);
  options.pressure.prefill_tokens_per_replica = 4'000;  // A quarter of it is in use.
  dispatcher->reconfigure(options, kNow);
  EXPECT_TRUE(arrive(Class::kBatch).refusal);
  EXPECT_TRUE(arrive(Class::kInteractive).grant);
  options.batch.overload = OverloadAction::kQueue;
  dispatcher->reconfigure(options, kNow);
  EXPECT_TRUE(arrive(Class::kBatch).grant);
}

TEST_F(OverloadPolicyTest, APromptThatWasComputedBeforeLeavesRoomForAnother) {
  open(OverloadAction::kQueue);
  end(running.ticket);
  EXPECT_TRUE(arrive(Class::kInteractive, 0, true).grant);
  EXPECT_TRUE(arrive(Class::kInteractive).grant);
  EXPECT_FALSE(arrive(Class::kInteractive).grant);
}

TEST_F(OverloadPolicyTest, ASegmentThatDropsIsGivenUpAtTheNextTick) {
  open(OverloadAction::kDrop);
  const ArrivalResult batch = arrive(Class::kBatch);
  dispatcher->tick(kNow);
  ASSERT_TRUE(listener.refusals.empty());
  const ArrivalResult protected_one = arrive(Class::kInteractive);
  EXPECT_EQ(dispatcher->next_wake(kNow), kNow);
  dispatcher->tick(kNow);
  ASSERT_TRUE(listener.refusals.contains(batch.ticket));
  EXPECT_EQ(listener.refusals.at(batch.ticket).reason, RefusalReason::kDropped);
  EXPECT_STREQ(to_string(RefusalReason::kDropped), "dropped");
  EXPECT_GE(listener.refusals.at(batch.ticket).retry_after_s, 1U);
  EXPECT_EQ(counts(Class::kBatch), (OverloadCounts{1, 0, 1, 0}));
  EXPECT_EQ(counts(Class::kInteractive), (OverloadCounts{1, 0, 0, 0}));
  end(running.ticket);
  EXPECT_TRUE(listener.grants.contains(protected_one.ticket));
}

TEST_F(OverloadPolicyTest, OnlyASegmentThatDegradesIsShortened) {
  open(OverloadAction::kDegrade);
  options.interactive.degrade = options.batch.degrade = {100, 7};
  dispatcher->reconfigure(options, kNow);
  const Ticket interactive = arrive(Class::kInteractive).ticket, batch = arrive(Class::kBatch).ticket;
  end(running.ticket);
  ASSERT_TRUE(listener.grants.contains(interactive));
  EXPECT_FALSE(listener.grants.at(interactive).lowers_max_tokens);
  EXPECT_EQ(listener.grants.at(interactive).max_tokens, std::nullopt);
  end(interactive);
  ASSERT_TRUE(listener.grants.contains(batch));
  EXPECT_TRUE(listener.grants.at(batch).lowers_max_tokens);
  EXPECT_EQ(listener.grants.at(batch).max_tokens, 7U);
  EXPECT_EQ(counts(Class::kBatch), (OverloadCounts{1, 1, 0, 0}));
  EXPECT_EQ(dispatcher->counters().clamped, 1U);
}

// With equal limits no interactive answer is shortened before the batch answers.
TEST_F(OverloadPolicyTest, InteractiveRequestsDoNotCountBatchTokens) {
  open(OverloadAction::kDegrade);
  options.interactive.overload = OverloadAction::kDegrade;
  options.interactive.degrade = options.batch.degrade = {3'000, 7};
  dispatcher->reconfigure(options, kNow);
  const Ticket interactive = arrive(Class::kInteractive).ticket;
  for (int i = 0; i < 8; ++i) static_cast<void>(arrive(Class::kBatch));
  end(running.ticket);
  ASSERT_TRUE(listener.grants.contains(interactive));
  EXPECT_FALSE(listener.grants.at(interactive).lowers_max_tokens);
  end(interactive);
  ASSERT_EQ(listener.grants.size(), 2U);
  EXPECT_EQ(listener.grants.rbegin()->second.max_tokens, 7U);
}

TEST_F(OverloadPolicyTest, AReloadAppliesThePolicyToWaitingRequests) {
  open(OverloadAction::kQueue);
  const ArrivalResult batch = arrive(Class::kBatch), interactive = arrive(Class::kInteractive);
  dispatcher->tick(kNow);
  EXPECT_TRUE(listener.refusals.empty());
  options.batch.overload = OverloadAction::kDrop;
  dispatcher->reconfigure(options, kNow);
  dispatcher->tick(kNow);
  EXPECT_TRUE(listener.refusals.contains(batch.ticket));
  EXPECT_FALSE(listener.refusals.contains(interactive.ticket));
}

TEST_F(OverloadPolicyTest, ARequestAboveABudgetThatBecomesABatchRequestWaitsForTheRefillInThatClass) {
  open(OverloadAction::kQueue);
  end(running.ticket);
  options.tenants[kFreeTenant].budget = {60'000.0, 3'000.0};
  options.tenants[kFreeTenant].over_budget = OverBudget::kBatch;
  options.batch.queue_time = 1min;
  dispatcher->reconfigure(options, kNow);
  const ArrivalResult within = arrive(Class::kInteractive, kFreeTenant);
  ASSERT_TRUE(within.grant);
  EXPECT_FALSE(within.moved_to_batch || within.grant->moved_to_batch);
  const ArrivalResult above = arrive(Class::kInteractive, kFreeTenant);
  EXPECT_TRUE(above.moved_to_batch && !above.grant && !above.refusal && !above.is_work);
  const Overview seen = dispatcher->overview(kNow);
  EXPECT_EQ(seen.waiting_interactive, 0U);
  EXPECT_EQ(seen.waiting_batch, 1U);
  EXPECT_EQ(seen.tenants[kFreeTenant].moved_to_batch, 1U);
  EXPECT_FALSE(dispatcher->early_refusal(kFreeTenant, kNow));
  end(within.ticket);
  dispatcher->tick(kNow + 20s);
  ASSERT_TRUE(listener.grants.contains(above.ticket));
  EXPECT_TRUE(listener.grants.at(above.ticket).moved_to_batch);
  RequestOutcome ending;
  ending.usage = TokenUsage{1000, 5, 0};
  dispatcher->ended(above.ticket, ending, kNow + 20s);
  EXPECT_EQ(closed.back().traffic_class, "batch");
}

TEST_F(OverloadPolicyTest, ARequestThatBecomesABatchRequestHasTheExpectedAnswerOfThatClass) {
  open(OverloadAction::kQueue);
  end(running.ticket);
  const auto learn = [&](Class traffic_class, std::uint32_t output_tokens) {
    for (int i = 0; i < 20; ++i) {
      const ArrivalResult each = arrive(traffic_class, kFreeTenant);
      ASSERT_TRUE(each.grant);
      RequestOutcome ending;
      ending.usage = TokenUsage{1000, output_tokens, 0};
      dispatcher->ended(each.ticket, ending, kNow);
    }
  };
  learn(Class::kBatch, 900);
  learn(Class::kInteractive, 20);
  const ArrivalResult batch = arrive(Class::kBatch, kFreeTenant);
  end(batch.ticket);
  options.tenants[kFreeTenant].budget = {60'000.0, 3'000.0};
  options.tenants[kFreeTenant].over_budget = OverBudget::kBatch;
  options.batch.queue_time = 1min;
  dispatcher->reconfigure(options, kNow);
  EXPECT_FALSE(arrive(Class::kInteractive, kFreeTenant).moved_to_batch);
  const ArrivalResult moved = arrive(Class::kInteractive, kFreeTenant);
  EXPECT_TRUE(moved.moved_to_batch);
  EXPECT_GT(moved.expected_output_tokens, 400U);
}

}  // namespace
}  // namespace penstock::dispatch
