#include "admission/budget.h"

#include <gtest/gtest.h>

#include <cmath>
#include <deque>
#include <vector>

#include "core/random.h"

namespace penstock::admission {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr core::Instant kNow = core::kStart + seconds{100};

TEST(TokenBudget, StartsFullAndNeverOvercommits) {
  TokenBudget budget{{600.0, 100.0}, kNow};
  EXPECT_TRUE(budget.reserve(60, kNow));
  EXPECT_FALSE(budget.reserve(41, kNow));
  EXPECT_DOUBLE_EQ(budget.available(kNow), 40.0);
  EXPECT_TRUE(budget.reserve(40, kNow));
  EXPECT_FALSE(budget.reserve(1, kNow));
}

TEST(TokenBudget, RefillsEvenlyUpToItsBurst) {
  TokenBudget budget{{600.0, 100.0}, kNow};
  ASSERT_TRUE(budget.reserve(100, kNow));
  EXPECT_DOUBLE_EQ(budget.available(kNow + seconds{3}), 30.0);
  EXPECT_DOUBLE_EQ(budget.available(kNow + minutes{3}), 100.0);
}

TEST(TokenBudget, ConcurrentRequestsNeverOverdrawTheBudget) {
  TokenBudget budget{{1000.0, 0.0}, kNow};
  int granted = 0;
  for (int i = 0; i < 1000; ++i) granted += budget.reserve(7, kNow) ? 1 : 0;
  EXPECT_EQ(granted, 142);
}

TEST(TokenBudget, WithoutABurstHoldsOneMinute) {
  TokenBudget budget{{600.0, 0.0}, kNow};
  EXPECT_DOUBLE_EQ(budget.available(kNow), 600.0);
  EXPECT_EQ(budget.available_at(601, kNow), core::kNever);
}

TEST(TokenBudget, ChargesOfOtherGatewaysLeaveABoundedDebt) {
  TokenBudget budget{{600.0, 100.0}, kNow};
  budget.charge_elsewhere(130, 50.0, kNow);
  EXPECT_DOUBLE_EQ(budget.available(kNow), -30.0);
  budget.charge_elsewhere(1'000'000, 50.0, kNow);
  EXPECT_DOUBLE_EQ(budget.available(kNow), -50.0);
  budget.charge_elsewhere(-70, 50.0, kNow);
  EXPECT_DOUBLE_EQ(budget.available(kNow), 20.0);
  budget.charge_elsewhere(-1'000'000, 50.0, kNow);
  EXPECT_DOUBLE_EQ(budget.available(kNow), 100.0);
}

TEST(TokenBudget, ADebtOfItsOwnIsNotForgivenByALimitOfOthers) {
  TokenBudget budget{{600.0, 100.0}, kNow};
  budget.settle(0, 300, kNow);
  budget.charge_elsewhere(10, 50.0, kNow);
  EXPECT_DOUBLE_EQ(budget.available(kNow), -200.0);
}

TEST(TokenBudget, MissesAtLeastWhatAnotherGatewayMisses) {
  TokenBudget budget{{600.0, 100.0}, kNow};
  ASSERT_TRUE(budget.reserve(40, kNow));
  budget.require_missing(30.0, 50.0, kNow);
  EXPECT_DOUBLE_EQ(budget.missing(kNow), 40.0);
  budget.require_missing(80.0, 50.0, kNow);
  EXPECT_DOUBLE_EQ(budget.missing(kNow), 80.0);
  budget.require_missing(1e18, 50.0, kNow);
  EXPECT_DOUBLE_EQ(budget.missing(kNow), 150.0);
  TokenBudget unlimited{{}, kNow};
  unlimited.charge_elsewhere(5, 0.0, kNow);
  unlimited.require_missing(5.0, 0.0, kNow);
  EXPECT_EQ(unlimited.missing(kNow), 0.0);
}

TEST(TokenBudget, WithoutALimitGrantsEverything) {
  TokenBudget budget{{}, kNow};
  EXPECT_TRUE(budget.reserve(1ULL << 60, kNow));
  EXPECT_TRUE(std::isinf(budget.available(kNow)));
  EXPECT_EQ(budget.available_at(1ULL << 60, kNow), kNow);
  budget.settle(5, 500, kNow);
  budget.change({60.0, 10.0}, kNow);
  EXPECT_DOUBLE_EQ(budget.available(kNow), 10.0);
}

TEST(TokenBudget, ARequestLargerThanTheBurstIsNeverGranted) {
  TokenBudget budget{{600.0, 100.0}, kNow};
  EXPECT_FALSE(budget.reserve(101, kNow + minutes{100}));
  EXPECT_EQ(budget.available_at(101, kNow), core::kNever);
}

TEST(TokenBudget, WhatFailedIsRefundedWhole) {
  TokenBudget budget{{600.0, 100.0}, kNow};
  ASSERT_TRUE(budget.reserve(80, kNow));
  budget.settle(80, 0, kNow);
  EXPECT_DOUBLE_EQ(budget.available(kNow), 100.0);
  ASSERT_TRUE(budget.reserve(80, kNow));
  budget.settle(80, 0, kNow + seconds{30});
  EXPECT_DOUBLE_EQ(budget.available(kNow + seconds{30}), 100.0);  // The level does not exceed the burst.
}

TEST(TokenBudget, ALateSettlementDelaysLaterRequests) {
  TokenBudget budget{{600.0, 100.0}, kNow};
  ASSERT_TRUE(budget.reserve(50, kNow));
  budget.settle(50, 200, kNow);
  EXPECT_DOUBLE_EQ(budget.available(kNow), -100.0);
  EXPECT_FALSE(budget.reserve(0, kNow));
  EXPECT_EQ(budget.available_at(10, kNow), kNow + seconds{11});
}

TEST(TokenBudget, NewLimitsKeepTheLevelUpToTheNewBurst) {
  TokenBudget budget{{600.0, 100.0}, kNow};
  ASSERT_TRUE(budget.reserve(70, kNow));
  budget.change({6000.0, 1000.0}, kNow);
  EXPECT_DOUBLE_EQ(budget.available(kNow), 30.0);
  EXPECT_DOUBLE_EQ(budget.available(kNow + seconds{1}), 130.0);
  budget.change({600.0, 20.0}, kNow + seconds{1});
  EXPECT_DOUBLE_EQ(budget.available(kNow + seconds{1}), 20.0);
}

TEST(TokenBudget, ADrainedBucketIsFullAfterItsRefill) {
  const core::Instant now{std::chrono::hours{1}};
  TokenBudget budget{{6000.0, 1000.0}, now};
  budget.drain(now - std::chrono::seconds{20});
  EXPECT_DOUBLE_EQ(budget.available(now), 1000.0);
  budget.drain(now - std::chrono::seconds{5});
  EXPECT_DOUBLE_EQ(budget.available(now), 500.0);
  budget.settle(0, 800, now - std::chrono::seconds{2});
  EXPECT_DOUBLE_EQ(budget.available(now), -300.0);
}

TEST(TokenBudget, ABackwardClockRefillsNothing) {
  TokenBudget budget{{600.0, 100.0}, kNow};
  ASSERT_TRUE(budget.reserve(100, kNow));
  EXPECT_DOUBLE_EQ(budget.available(kNow - seconds{10}), 0.0);
  budget.settle(10, 0, kNow - seconds{10});
  EXPECT_DOUBLE_EQ(budget.available(kNow + seconds{1}), 20.0);
}

// Within any minute, grants minus refunds are at most the burst plus one minute's refill. Late settlement adds what
// requests used beyond their estimates.
TEST(TokenBudgetProperty, NoMinuteGrantsMoreThanTheBurstAndAMinutesRefill) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    core::RandomStream random = core::RandomStream{seed}.fork("budget");
    const BudgetLimits limits{1.0 + random.uniform(0.0, 1e5),
                              random.below(3) == 0 ? 0.0 : 1.0 + random.uniform(0.0, 3e4)};
    TokenBudget budget{limits, kNow};
    struct Change {
      core::Instant at;
      double tokens;
    };
    std::deque<Change> minute;
    double net = 0.0;
    std::vector<std::uint64_t> open;
    core::Instant now = kNow;
    for (int step = 0; step < 2000; ++step) {
      now += core::Duration{static_cast<std::int64_t>(random.exponential(4e8))};
      if (random.below(3) != 0 || open.empty()) {
        const std::uint64_t tokens = random.below(static_cast<std::uint64_t>(limits.capacity() / 4.0) + 2);
        const double before = budget.available(now);
        const bool granted = budget.reserve(tokens, now);
        ASSERT_EQ(granted, static_cast<double>(tokens) <= before);
        if (!granted) continue;
        open.push_back(tokens);
        minute.push_back({now, static_cast<double>(tokens)});
      } else {
        std::swap(open[random.below(open.size())], open.back());
        const std::uint64_t used = random.below(open.back() + 1);
        budget.settle(open.back(), used, now);
        minute.push_back({now, -static_cast<double>(open.back() - used)});
        open.pop_back();
      }
      net += minute.back().tokens;
      while (minute.front().at < now - minutes{1}) {
        net -= minute.front().tokens;
        minute.pop_front();
      }
      ASSERT_LE(net, (limits.capacity() + limits.tokens_per_minute) * (1.0 + 1e-9) + 1e-6) << "seed " << seed;
    }
  }
}

TEST(TokenBudgetProperty, AvailableAtIsTheEarliestGrant) {
  for (std::uint64_t seed = 1; seed <= 2000; ++seed) {
    core::RandomStream random = core::RandomStream{seed}.fork("available");
    const BudgetLimits limits{std::pow(10.0, random.uniform(0.0, 8.0)), std::pow(10.0, random.uniform(1.0, 8.0))};
    TokenBudget budget{limits, kNow};
    core::Instant now = kNow + core::Duration{static_cast<std::int64_t>(random.exponential(1e10))};
    const auto taken = static_cast<std::uint64_t>(limits.capacity() * random.uniform());
    ASSERT_TRUE(budget.reserve(taken, now));
    if (random.below(3) == 0) budget.settle(taken, taken + random.below(1000), now);
    now += core::Duration{static_cast<std::int64_t>(random.exponential(1e9))};
    const auto wanted = static_cast<std::uint64_t>(limits.capacity() * random.uniform());
    const core::Instant at = budget.available_at(wanted, now);
    ASSERT_NE(at, core::kNever);
    ASSERT_GE(at, now);
    if (at > now) {
      TokenBudget before = budget;
      EXPECT_FALSE(before.reserve(wanted, at - core::Duration{1}));
      EXPECT_FALSE(before.reserve(wanted, std::max(now, at - milliseconds{1})));
      EXPECT_TRUE(before.reserve(wanted, at));  // A second query changes nothing.
    }
    EXPECT_TRUE(budget.reserve(wanted, at)) << "seed " << seed;
  }
}

}  // namespace
}  // namespace penstock::admission
