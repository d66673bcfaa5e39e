#include "ledger/balance.h"

#include <gtest/gtest.h>

#include <map>

#include "core/random.h"
#include "ledger/ledger_testing.h"

namespace penstock::ledger {
namespace {

using testing::closed;
using testing::opened;
using testing::refused;

TEST(Balance, SumsByTenantAndModel) {
  Balance balance;
  balance.open(opened(1));
  balance.open(opened(2));
  balance.open(opened(3, "zeta"));
  balance.close(closed(opened(1)));
  balance.refuse(refused(4, "zeta"));
  EXPECT_EQ(balance.fault(), "");
  EXPECT_EQ(balance.open_entries(), 2U);
  ASSERT_EQ(balance.sums().size(), 2U);
  const Sums& acme = balance.sums().at({"acme", "m"});
  EXPECT_EQ(acme.opened, 2U);
  EXPECT_EQ(acme.closed, 1U);
  EXPECT_EQ(acme.completed, 1U);
  EXPECT_EQ(acme.reserved_tokens, 1256U);
  EXPECT_EQ(acme.prompt_tokens, 1010U);
  EXPECT_EQ(acme.cached_tokens, 512U);
  EXPECT_EQ(acme.output_tokens, 200U);
  EXPECT_DOUBLE_EQ(acme.cost, 0.002);
  const Sums& zeta = balance.sums().at({"zeta", "m"});
  EXPECT_EQ(zeta.opened, 1U);
  EXPECT_EQ(zeta.closed, 0U);
  EXPECT_EQ(zeta.refused, 1U);
}

TEST(Balance, ReportsEntriesClosedTwiceOrNeverOpened) {
  Balance balance;
  balance.open(opened(1));
  balance.close(closed(opened(1)));
  balance.close(closed(opened(1)));
  EXPECT_EQ(balance.fault(), "acme, m: entry 1 was closed, but is not open");
  EXPECT_EQ(balance.sums().at({"acme", "m"}).closed, 1U);
}

TEST(Balance, ReportsEntriesOpenedTwice) {
  Balance balance;
  balance.open(opened(1));
  balance.open(opened(1));
  EXPECT_EQ(balance.fault(), "acme, m: entry 1 was opened twice");
}

TEST(Balance, ReportsEntriesClosedWithOtherValues) {
  Balance balance;
  balance.open(opened(1));
  balance.close(closed(opened(1, "zeta")));
  EXPECT_EQ(balance.fault(), "zeta, m: entry 1 was closed with other values than it was opened with");
  Balance another;
  another.open(opened(1));
  another.close(closed(opened(1), Outcome::kRefused));
  EXPECT_NE(another.fault(), "");
}

TEST(Balance, ReportsSumsThatDoNotBalance) {
  Sums sums;
  sums.opened = 5, sums.closed = 3, sums.completed = 2, sums.lost = 1;
  EXPECT_EQ(imbalance(sums, 2), "");
  EXPECT_EQ(imbalance(sums, 1), "5 were opened, 3 closed and 1 are open");
  sums.lost = 2;
  EXPECT_EQ(imbalance(sums, 2), "3 were closed, and 4 have an outcome");
}

TEST(BalanceProperty, BalancesInEveryOrder) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    core::RandomStream random{seed};
    Balance balance;
    std::map<std::uint64_t, Entry> open;
    std::uint64_t closes = 0, reserved = 0;
    const char* tenants[] = {"a", "b", "c"};
    for (std::uint64_t id = 1; id <= 500; ++id) {
      const char* tenant = tenants[random.below(3)];
      if (random.below(5) == 0) {
        balance.refuse(refused(id, tenant));
      } else {
        Entry entry = opened(id, tenant);
        entry.reserved_tokens = random.below(5000);
        balance.open(entry);
        reserved += entry.reserved_tokens;
        open.emplace(id, entry);
      }
      while (!open.empty() && random.below(2) == 0) {
        auto at = open.lower_bound(random.below(id + 1));
        if (at == open.end()) at = open.begin();
        constexpr Outcome kEnds[] = {Outcome::kCompleted, Outcome::kCancelled, Outcome::kFailed, Outcome::kLost};
        balance.close(closed(at->second, kEnds[random.below(4)]));
        reserved -= at->second.reserved_tokens;
        ++closes;
        open.erase(at);
      }
      ASSERT_EQ(balance.fault(), "") << "seed " << seed;
      Sums all;
      for (const auto& [key, sums] : balance.sums()) {
        all.opened += sums.opened, all.closed += sums.closed, all.refused += sums.refused;
        all.reserved_tokens += sums.reserved_tokens, all.output_tokens += sums.output_tokens;
      }
      ASSERT_EQ(all.opened + all.refused, id);
      ASSERT_EQ(all.closed, closes);
      ASSERT_EQ(all.opened - all.closed, open.size());
      ASSERT_EQ(all.reserved_tokens, reserved);
      ASSERT_EQ(all.output_tokens, 200 * closes);
    }
  }
}

}  // namespace
}  // namespace penstock::ledger
