// What a dispatcher that has open requests does when its options change.
#include <gtest/gtest.h>

#include <algorithm>

#include "dispatch/dispatcher.h"
#include "dispatch/dispatcher_testing.h"

namespace penstock::dispatch {
namespace {

using namespace testing;

using namespace std::chrono_literals;
constexpr core::Instant kNow = core::kStart + 100s;

class ReconfigureTest : public ::testing::Test {
 protected:
  void SetUp() override {
    options = options_for_tests();
    options.tenants.resize(2);
    options.tenants[1].name = "shop";
    options.tenants[1].concurrent = 1;
    dispatcher = std::make_unique<Dispatcher>(options, std::make_unique<TestSink>(opened, closed), kNow - 10s, 24h);
    dispatcher->set_replicas({replica_named("r1")}, kNow);
  }
  ArrivalResult arrive(std::uint32_t tenant, core::Instant now = kNow) {
    RequestInfo info = info_of(400, tenant);
    info.max_tokens = 10;
    info.received_at = now;
    return dispatcher->arrive(info, listener, now);
  }
  void end(Ticket ticket, core::Instant now) {
    RequestOutcome ending;
    ending.usage = TokenUsage{100, 0, 0};
    ending.last_token_at = now;
    dispatcher->answered(ticket, now);
    dispatcher->ended(ticket, ending, now);
  }
  [[nodiscard]] std::vector<std::string> tenants() const {
    std::vector<std::string> names;
    for (const TenantStatus& tenant : dispatcher->overview(kNow).tenants) names.push_back(tenant.name);
    return names;
  }

  DispatchOptions options;
  std::vector<ledger::Entry> opened, closed;
  TestListener listener;
  std::unique_ptr<Dispatcher> dispatcher;
};

// Replica r1 is idle with 92 % of its KV cache in use, r2 has requests.
TEST_F(ReconfigureTest, ReplicasAreFullFromTheNewKvRejectOn) {
  dispatcher->set_replicas({replica_named("r1"), replica_named("r2")}, kNow);
  const std::uint32_t r1 = 0, r2 = 1;
  const auto chosen = [&](core::Instant now) {
    dispatcher->report_load(r1, {.at = now, .waiting_prefill_tokens = 0, .kv_usage = 0.92});
    dispatcher->report_load(r2, {.at = now, .waiting_prefill_tokens = 40'000, .kv_usage = 0.1});
    const ArrivalResult result = arrive(0, now);
    EXPECT_TRUE(result.grant);
    return result.grant ? result.grant->slot : 99U;
  };
  EXPECT_EQ(chosen(kNow + 30s), r2);
  options.pressure.kv_reject = 0.95;
  dispatcher->reconfigure(options, kNow + 31s);
  EXPECT_EQ(chosen(kNow + 31s), r1);
}

TEST_F(ReconfigureTest, ARemovedReplicaStaysRemoved) {
  dispatcher->set_replicas({replica_named("r1"), replica_named("r2")}, kNow);
  dispatcher->set_replicas({replica_named("r2")}, kNow + 1s);
  options.pressure.kv_reject = 0.95;
  dispatcher->reconfigure(options, kNow + 2s);
  const ArrivalResult result = arrive(0, kNow + 2s);
  ASSERT_TRUE(result.grant);
  EXPECT_EQ(result.grant->slot, 1U);
}

TEST_F(ReconfigureTest, ANewTenantHasItsOwnLimits) {
  Tenant search;
  search.name = "search";
  search.concurrent = 2;
  options.tenants.push_back(search);
  dispatcher->reconfigure(options, kNow);
  EXPECT_TRUE(arrive(2).grant);
  EXPECT_TRUE(arrive(2).grant);
  const ArrivalResult third = arrive(2);
  ASSERT_TRUE(third.refusal);
  EXPECT_EQ(third.refusal->reason, RefusalReason::kTooManyRequests);
  EXPECT_EQ(tenants(), (std::vector<std::string>{"anonymous", "shop", "search"}));
}

TEST_F(ReconfigureTest, ARemovedTenantIsShownUntilItsLastRequestEnds) {
  const ArrivalResult open = arrive(1);
  ASSERT_TRUE(open.grant);
  options.tenants[1].removed = true;
  dispatcher->reconfigure(options, kNow);
  EXPECT_EQ(tenants(), (std::vector<std::string>{"anonymous", "shop"}));
  end(open.ticket, kNow + 1s);
  EXPECT_EQ(tenants(), (std::vector<std::string>{"anonymous"}));
  ASSERT_EQ(closed.size(), 1U);
  EXPECT_EQ(closed[0].tenant, "shop");
  EXPECT_EQ(dispatcher->invariant_violation(kNow + 1s), "");
}

TEST_F(ReconfigureTest, AHigherLimitAdmitsTheNextRequest) {
  const ArrivalResult first = arrive(1);
  ASSERT_TRUE(first.grant);
  EXPECT_TRUE(arrive(1).refusal);
  options.tenants[1].concurrent = 2;
  dispatcher->reconfigure(options, kNow);
  EXPECT_TRUE(arrive(1).grant);
}

TEST_F(ReconfigureTest, AnOpenRequestHasThePriceAtItsEnd) {
  const ArrivalResult open = arrive(0);
  options.models[0].price.input = 50'000.0;
  dispatcher->reconfigure(options, kNow);
  end(open.ticket, kNow + 1s);
  ASSERT_EQ(closed.size(), 1U);
  EXPECT_DOUBLE_EQ(closed[0].cost, 5.0);
}

TEST_F(ReconfigureTest, AModelThatIsNoLongerConfiguredStaysServedWithoutAPrice) {
  options.models.clear();
  dispatcher->reconfigure(options, kNow);
  const ArrivalResult open = arrive(0);
  ASSERT_TRUE(open.grant);
  end(open.ticket, kNow + 1s);
  EXPECT_DOUBLE_EQ(closed.at(0).cost, 0.0);
}

TEST_F(ReconfigureTest, TheQueueTimeOfAClassAppliesToLaterRequests) {
  dispatcher->set_health(0, ReplicaHealth::kUnhealthy, kNow);
  EXPECT_NE(arrive(0).ticket, 0U);  // Waits for ten seconds.
  options.interactive.queue_time = core::Duration{};
  dispatcher->reconfigure(options, kNow);
  EXPECT_TRUE(arrive(0).refusal);
  dispatcher->tick(kNow + 5s);
  EXPECT_TRUE(listener.refusals.empty());
  dispatcher->tick(kNow + 11s);
  EXPECT_EQ(listener.refusals.size(), 1U);
}

TEST_F(ReconfigureTest, TheBreakerOfAReplicaTakesItsNewLimits) {
  dispatcher->set_replicas({replica_named("r1"), replica_named("r2")}, kNow);
  options.circuit_breaker.failures = 1;
  dispatcher->reconfigure(options, kNow);
  const ArrivalResult failed = arrive(0);
  ASSERT_TRUE(failed.grant);
  dispatcher->attempt_ended(failed.ticket, Attempt::kFaulted, kNow);
  const auto replicas = dispatcher->replicas(kNow);
  EXPECT_EQ(std::count_if(replicas.begin(), replicas.end(), [](const auto& each) { return each.load.eligible; }), 1);
}

}  // namespace
}  // namespace penstock::dispatch
