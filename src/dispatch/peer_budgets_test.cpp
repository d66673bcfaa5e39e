#include "dispatch/peer_budgets.h"

#include <gtest/gtest.h>

#include "dispatch/dispatcher.h"
#include "dispatch/dispatcher_testing.h"

namespace penstock::dispatch {
namespace {

using namespace std::chrono_literals;

constexpr core::Instant kNow{1'000h};

BudgetReport report_of(std::string process, std::uint64_t number, core::Duration age, admission::SharedUse use) {
  BudgetReport report;
  report.process = std::move(process);
  report.number = number;
  report.age = age;
  report.tenants = {{"t", use}};
  report.classes[1] = {use.taken, use.missing, 0};
  return report;
}

// The change of the only tenant; zeros if there is none.
admission::SharedChange change_of_tenant(const BudgetChanges& changes) {
  return changes.tenants.empty() ? admission::SharedChange{} : changes.tenants.front().second;
}

TEST(PeerBudgets, ChargesWhatAPeerTookSinceItsLastReportAndReturnsRefunds) {
  PeerBudgets peers{"self", kNow - 10min};
  EXPECT_EQ(change_of_tenant(peers.take(report_of("peer", 1, 1s, {100, 0.0, 2}), kNow)).charged, 100);
  const BudgetChanges more = peers.take(report_of("peer", 2, 2s, {250, 0.0, 3}), kNow);
  EXPECT_EQ(change_of_tenant(more).charged, 150);
  EXPECT_EQ(change_of_tenant(more).running_elsewhere, 3U);
  EXPECT_EQ(more.classes[1].charged, 150);
  EXPECT_EQ(more.gateways, 2U);
  EXPECT_EQ(change_of_tenant(peers.take(report_of("peer", 3, 3s, {40, 0.0, 0}), kNow)).charged, -210);
  BudgetReport without = report_of("peer", 4, 4s, {});
  without.tenants.clear();
  EXPECT_EQ(change_of_tenant(peers.take(without, kNow)).charged, -40) << "a tenant that is not named has taken nothing";
}

TEST(PeerBudgets, IgnoresReportsThatAreRepeatedOrOldOrItsOwn) {
  PeerBudgets peers{"self", kNow - 10min};
  static_cast<void>(peers.take(report_of("peer", 5, 1s, {100, 0.0, 1}), kNow));
  for (const std::uint64_t number : {5U, 4U}) {
    const BudgetChanges none = peers.take(report_of("peer", number, 1s, {900, 50.0, 9}), kNow);
    EXPECT_TRUE(none.tenants.empty());
    EXPECT_EQ(none.classes[1].charged, 0);
  }
  EXPECT_TRUE(peers.take(report_of("self", 9, 1s, {900, 50.0, 9}), kNow).tenants.empty());
  EXPECT_EQ(peers.peers(), 1U);
}

TEST(PeerBudgets, ARestartedPeerCountsFromZero) {
  PeerBudgets peers{"self", kNow - 10min};
  static_cast<void>(peers.take(report_of("first", 7, 5min, {1'000, 300.0, 4}), kNow));
  const auto change = change_of_tenant(peers.take(report_of("second", 1, 2s, {30, 500.0, 1}), kNow + 10s));
  EXPECT_EQ(change.charged, 30);
  EXPECT_EQ(change.missing, 0.0);
  EXPECT_EQ(change.running_elsewhere, 5U) << "the first may still have requests in flight";
  EXPECT_EQ(change_of_tenant(peers.ended("first")).running_elsewhere, 1U);
}

TEST(PeerBudgets, OfAPeerThatIsOlderOnlyWhatItMissesIsKnown) {
  PeerBudgets peers{"self", kNow - 5s};
  const auto first = change_of_tenant(peers.take(report_of("peer", 9, 1h, {1'000'000, 300.0, 0}), kNow));
  EXPECT_EQ(first.charged, 0);
  EXPECT_EQ(first.missing, 300.0);
  const auto next = change_of_tenant(peers.take(report_of("peer", 10, 1h + 1s, {1'000'020, 310.0, 0}), kNow));
  EXPECT_EQ(next.charged, 20);
  EXPECT_EQ(next.missing, 0.0);
}

TEST(PeerBudgets, APeerThatWasSilentForAMinuteIsForgotten) {
  PeerBudgets peers{"self", kNow - 10min};
  static_cast<void>(peers.take(report_of("peer", 1, 1s, {100, 0.0, 2}), kNow));
  EXPECT_TRUE(peers.forget_silent(kNow + 1min).tenants.empty());
  const BudgetChanges changes = peers.forget_silent(kNow + 61s);
  EXPECT_EQ(changes.tenants.front().first, "t");
  EXPECT_EQ(change_of_tenant(changes).running_elsewhere, 0U);
  EXPECT_EQ(change_of_tenant(changes).charged, 0);
  EXPECT_EQ(changes.gateways, 1U);
  // What it took meanwhile is not charged at once: a budget would refuse everything for as long.
  const auto back = change_of_tenant(peers.take(report_of("peer", 2, 1h, {9'000'000, 70.0, 0}), kNow + 1h));
  EXPECT_EQ(back.charged, 0);
  EXPECT_EQ(back.missing, 70.0);
}

TEST(PeerBudgets, ThereIsALimitOfPeers) {
  PeerBudgets peers{"self", kNow - 10min};
  for (std::size_t i = 0; i < PeerBudgets::kPeersMax; ++i)
    static_cast<void>(peers.take(report_of("peer-" + std::to_string(i), 1, 1s, {1, 0.0, 0}), kNow));
  EXPECT_TRUE(peers.take(report_of("one more", 1, 1s, {1, 0.0, 0}), kNow).tenants.empty());
  EXPECT_EQ(peers.peers(), PeerBudgets::kPeersMax);
}

// Two gateways with one tenant each.
struct Pair {
  Pair() {
    options.tenants[0].name = "t";
    for (auto* each : {&one, &other}) {
      *each = std::make_unique<Dispatcher>(options, nullptr, kNow, core::Duration{10'000h});
      (*each)->set_replicas({testing::replica_named("r1")}, kNow);
    }
  }
  void limit(const admission::BudgetLimits& budget, std::uint32_t concurrent) {
    options.tenants[0].budget = budget;
    options.tenants[0].concurrent = concurrent;
    for (auto* each : {&one, &other}) (*each)->reconfigure(options, kNow);
  }
  [[nodiscard]] ArrivalResult arrive(Dispatcher& at) {
    RequestInfo info = testing::info_of(10);
    info.max_tokens = 90;
    info.received_at = kNow;
    return at.arrive(info, listener, kNow);
  }
  void exchange(Dispatcher& from, Dispatcher& to) {
    BudgetReport report = from.budget_report(kNow);
    report.process = "peer";
    report.number = ++reports;
    report.age = 1s;
    to.change_budgets(peers.take(report, kNow), kNow);
  }
  DispatchOptions options = testing::options_for_tests();
  testing::TestListener listener;
  PeerBudgets peers{"self", kNow - 10min};
  std::uint64_t reports = 0;
  std::unique_ptr<Dispatcher> one, other;
};

TEST(PeerBudgets, ATenantHasOneBudgetAtTwoGateways) {
  Pair pair;
  pair.limit({60.0, 1'000.0}, 0);
  while (pair.arrive(*pair.one).grant) continue;
  EXPECT_TRUE(pair.arrive(*pair.other).grant);
  pair.exchange(*pair.one, *pair.other);
  const ArrivalResult refused = pair.arrive(*pair.other);
  ASSERT_TRUE(refused.refusal);
  EXPECT_EQ(refused.refusal->reason, RefusalReason::kTokenBudgetExceeded);
  EXPECT_TRUE(pair.other->early_refusal(0, kNow));
}

TEST(PeerBudgets, AConcurrencyLimitCountsTheRequestsOfOtherGateways) {
  Pair pair;
  pair.limit({}, 2);
  const Ticket ticket = pair.arrive(*pair.one).ticket;
  ASSERT_TRUE(pair.arrive(*pair.one).grant);
  pair.exchange(*pair.one, *pair.other);
  const ArrivalResult refused = pair.arrive(*pair.other);
  ASSERT_TRUE(refused.refusal);
  EXPECT_EQ(refused.refusal->message,
            "tenant t has 0 requests in flight and 2 at other gateways, the limit (concurrent) is 2; retry when one "
            "has ended");
  EXPECT_TRUE(pair.other->early_refusal(0, kNow));
  pair.one->ended(ticket, {}, kNow);
  pair.exchange(*pair.one, *pair.other);
  EXPECT_TRUE(pair.arrive(*pair.other).grant);
}

TEST(PeerBudgets, AWaitingRequestIsAdmittedOnceAnotherGatewayReturnsTokens) {
  Pair pair;
  pair.options.tenants[0].over_budget = OverBudget::kQueue;
  pair.options.interactive.queue_time = 1h;
  pair.limit({60.0, 1'000.0}, 0);
  std::vector<Ticket> tickets;
  for (ArrivalResult result = pair.arrive(*pair.one); result.grant; result = pair.arrive(*pair.one))
    tickets.push_back(result.ticket);
  pair.exchange(*pair.one, *pair.other);
  const ArrivalResult waits = pair.arrive(*pair.other);
  ASSERT_TRUE(waits.ticket != 0 && !waits.grant);
  RequestOutcome outcome;
  outcome.usage = TokenUsage{1, 0, 1};
  for (const Ticket ticket : tickets) pair.one->ended(ticket, outcome, kNow);
  pair.exchange(*pair.one, *pair.other);
  pair.other->tick(kNow);
  EXPECT_TRUE(pair.listener.grants.contains(waits.ticket));
}

TEST(PeerBudgets, APeerWithLargerLimitsLeavesABoundedDebt) {
  Pair pair;
  pair.limit({600.0, 1'000.0}, 0);
  BudgetReport report = report_of("peer", 1, 1s, {1'000'000'000'000'000'000, 0.0, UINT32_MAX});
  report.tenants.emplace_back("unknown tenant \"\n\xff", admission::SharedUse{5, 5.0, 5});
  pair.other->change_budgets(pair.peers.take(report, kNow), kNow);
  const double most = 2 * (1'000.0 + 600.0);
  EXPECT_NEAR(pair.other->budget_report(kNow).tenants.front().second.missing, 1'000.0 + most, 0.01);
  report.number = 2;
  report.tenants.front().second.running = 0;
  pair.other->change_budgets(pair.peers.take(report, kNow), kNow);
  EXPECT_FALSE(pair.arrive(*pair.other).grant);
  const core::Instant later = kNow + core::from_seconds(60.0 * (most + 1'000.0) / 600.0 + 1.0);
  EXPECT_EQ(pair.other->early_refusal(0, later), std::nullopt);
}

}  // namespace
}  // namespace penstock::dispatch
