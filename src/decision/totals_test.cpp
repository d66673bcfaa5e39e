#include "decision/totals.h"

#include <gtest/gtest.h>

namespace penstock::decision {
namespace {

using namespace std::chrono_literals;

signals::Observation seen_at(core::Duration at, std::vector<std::pair<signals::Role, std::uint32_t>> pools) {
  signals::Observation seen;
  seen.now = core::kStart + at;
  for (const auto& [role, ready] : pools) {
    signals::PoolObservation& pool = seen.pools.emplace_back();
    pool.role = role;
    pool.ready = ready;
  }
  return seen;
}

Decision with_shares(const std::vector<std::optional<double>>& shares) {
  Decision made;
  for (const auto& share : shares) {
    PoolDecision& pool = made.pools.emplace_back();
    if (share) pool.evidence.push_back({"input_time_share", *share, "share"});
  }
  return made;
}

TEST(DecisionTotals, PromptsAndOutputTogetherBearTheGpuCost) {
  DecisionTotals totals{{2.0}};
  const std::vector<std::pair<signals::Role, std::uint32_t>> four{{signals::Role::kAggregated, 4}};
  totals.count(seen_at(0s, four), with_shares({0.25}));
  EXPECT_DOUBLE_EQ(totals.token_cost()->input + totals.token_cost()->output, 0.0);
  totals.count(seen_at(30min, four), with_shares({0.25}));
  // The time without a share is divided like the time before.
  totals.count(seen_at(60min, four), with_shares({std::nullopt}));
  ASSERT_TRUE(totals.token_cost());
  EXPECT_DOUBLE_EQ(totals.token_cost()->input, 2.0);
  EXPECT_DOUBLE_EQ(totals.token_cost()->output, 6.0);
  EXPECT_DOUBLE_EQ(*totals.cost(0), 8.0);
}

TEST(DecisionTotals, APriceIsThatOfItsTime) {
  DecisionTotals totals{{2.0}};
  const std::vector<std::pair<signals::Role, std::uint32_t>> one{{signals::Role::kAggregated, 1}};
  totals.count(seen_at(0s, one), with_shares({0.5}));
  totals.count(seen_at(60min, one), with_shares({0.5}));
  totals.set_prices({1.0});
  EXPECT_DOUBLE_EQ(*totals.cost(0), 2.0);
  totals.count(seen_at(120min, one), with_shares({0.25}));
  EXPECT_DOUBLE_EQ(*totals.cost(0), 3.0);
  EXPECT_DOUBLE_EQ(totals.token_cost()->input, 1.25) << "what was divided stays so";
}

TEST(DecisionTotals, ReplicasAsleepCostAShareOfThePrice) {
  DecisionTotals totals{{2.0}};
  for (const core::Duration at : {core::Duration{}, core::Duration{60min}}) {
    signals::Observation seen = seen_at(at, {{signals::Role::kAggregated, 1}});
    seen.pools[0].asleep = 4;
    seen.pools[0].starting_to_sleep = 1;
    seen.pools[0].sleep_price = 0.25;
    totals.count(seen, with_shares({std::nullopt}));
  }
  EXPECT_EQ(totals.gpu_time(0), core::Duration{180min});  // One ready, one starting, and four at a quarter.
  EXPECT_DOUBLE_EQ(*totals.cost(0), 6.0);
}

TEST(DecisionTotals, StuckReplicasArePaidFor) {
  DecisionTotals totals{{2.0}};
  for (const core::Duration at : {core::Duration{}, core::Duration{60min}}) {
    signals::Observation seen = seen_at(at, {{signals::Role::kAggregated, 1}});
    seen.pools[0].gpus_per_replica = 2;
    seen.pools[0].stuck = 1;
    seen.pools[0].stuck_ending = 2;
    totals.count(seen, with_shares({std::nullopt}));
  }
  EXPECT_EQ(totals.gpu_time(0), core::Duration{8h});
  EXPECT_DOUBLE_EQ(*totals.cost(0), 16.0);
}

TEST(DecisionTotals, PoolsOfARoleBearTheCostOfTheirTokens) {
  DecisionTotals totals{{2.0, 1.0}};
  for (const core::Duration at : {core::Duration{}, core::Duration{60min}})
    totals.count(seen_at(at, {{signals::Role::kPrefill, 1}, {signals::Role::kDecode, 3}}),
                 with_shares({std::nullopt, std::nullopt}));
  EXPECT_DOUBLE_EQ(totals.token_cost()->input, 2.0);
  EXPECT_DOUBLE_EQ(totals.token_cost()->output, 3.0);
}

TEST(DecisionTotals, TheCostOfTokensIsUnknownWithoutAShareOrAPrice) {
  DecisionTotals priced{{2.0}}, free;
  for (const core::Duration at : {core::Duration{}, core::Duration{60min}}) {
    const signals::Observation seen = seen_at(at, {{signals::Role::kAggregated, 1}});
    priced.count(seen, with_shares({std::nullopt}));
    free.count(seen, with_shares({0.5}));
  }
  EXPECT_FALSE(priced.token_cost());
  EXPECT_FALSE(free.token_cost());
}

}  // namespace
}  // namespace penstock::decision
