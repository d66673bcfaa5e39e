#include "ledger/entry.h"

#include <gtest/gtest.h>

#include <limits>

#include "ledger/ledger_testing.h"

namespace penstock::ledger {
namespace {

using testing::closed;
using testing::opened;
using testing::refused;

TEST(LedgerEntry, OutcomeNamesRoundTrip) {
  for (const Outcome outcome : {Outcome::kCompleted, Outcome::kCancelled, Outcome::kTimedOut, Outcome::kFailed,
                                Outcome::kRefused, Outcome::kLost})
    EXPECT_EQ(outcome_of(to_string(outcome)), outcome);
  EXPECT_STREQ(to_string(Outcome::kTimedOut), "timed_out");
  EXPECT_EQ(outcome_of("done"), std::nullopt);
  EXPECT_EQ(outcome_of(""), std::nullopt);
}

TEST(LedgerEntry, CostCoversComputedCachedAndDeliveredTokens) {
  Entry entry;
  entry.prompt_tokens = 3'000'000;
  entry.cached_tokens = 1'000'000;
  entry.output_tokens = 500'000;
  EXPECT_DOUBLE_EQ(cost_of(entry, {2.0, 0.5, 8.0}), 4.0 + 0.5 + 4.0);
  EXPECT_DOUBLE_EQ(cost_of(entry, {}), 0.0);
  EXPECT_DOUBLE_EQ(cost_of({}, {2.0, 0.5, 8.0}), 0.0);
}

TEST(LedgerEntry, ReportsContradictoryEntries) {
  EXPECT_EQ(imbalance(opened(1)), "");
  EXPECT_EQ(imbalance(closed(opened(1))), "");
  EXPECT_EQ(imbalance(refused(1)), "");
  Entry entry = closed(opened(7));
  entry.cached_tokens = 1011;
  EXPECT_EQ(imbalance(entry), "entry 7 has 1011 cached tokens in a prompt of 1010");
  entry = closed(opened(7));
  entry.closed_unix_ms = entry.opened_unix_ms - 5;
  EXPECT_EQ(imbalance(entry), "entry 7 was closed 5 ms before it was opened");
  for (const double cost : {-0.1, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    entry = closed(opened(7));
    entry.cost = cost;
    EXPECT_NE(imbalance(entry), "");
  }
  entry = refused(7);
  entry.output_tokens = 3;
  EXPECT_EQ(imbalance(entry), "entry 7 was refused, and has 3 tokens delivered");
  entry = refused(7);
  entry.reserved_tokens = 3;
  EXPECT_NE(imbalance(entry), "");
}

}  // namespace
}  // namespace penstock::ledger
