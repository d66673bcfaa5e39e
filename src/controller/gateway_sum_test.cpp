#include "controller/gateway_sum.h"

#include <gtest/gtest.h>

namespace penstock::controller {
namespace {

GatewayState state_of(std::string boot, std::uint32_t open) {
  GatewayState state;
  state.boot = std::move(boot);
  GatewayReplica replica;
  replica.id = "r1";
  replica.model = "m";
  replica.phase = "serving";
  replica.open_requests = open;
  replica.open_transfers = 1;
  state.replicas["r1"] = replica;
  state.waiting_by_model["m"] = {open, open * 0.5};
  state.waiting_by_pool[{"m", "chat"}] = {open, open * 0.5};
  return state;
}
GatewayState sum_of_two(const GatewayState& one, const GatewayState& other) {
  return sum_of(std::vector<const GatewayState*>{&one, &other});
}

TEST(GatewaySum, OneGatewayStaysAsItIs) {
  GatewayState state = state_of("a", 3);
  state.json = "{}";
  state.now_s = 5.0;
  const GatewayState sum = sum_of(std::vector<const GatewayState*>{&state});
  EXPECT_EQ(sum.boot, "a");
  EXPECT_EQ(sum.json, "{}");
  EXPECT_EQ(sum.now_s, 5.0);
}

TEST(GatewaySum, OpenAndWaitingRequestsAreSumsAndTheOldestIsThatOfAll) {
  const GatewayState sum = sum_of_two(state_of("a", 3), state_of("b", 4));
  EXPECT_EQ(sum.boot, "a+b");
  EXPECT_EQ(sum.replicas.at("r1").open_requests, 7U);
  EXPECT_EQ(sum.replicas.at("r1").open_transfers, 2U);
  EXPECT_EQ(sum.waiting_for("m").requests, 7U);
  EXPECT_EQ(sum.waiting_for("m").oldest_s, 2.0);
  EXPECT_EQ(sum.waiting_for("m", "chat").requests, 7U);
}

TEST(GatewaySum, AReplicaIsInUseAsLongAsAnyGatewayUsesIt) {
  GatewayState one = state_of("a", 0), other = state_of("b", 0);
  one.replicas["r1"].phase = "draining";
  one.replicas["r1"].healthy = false;
  other.replicas["r1"].eligible = true;
  other.replicas["r2"] = other.replicas["r1"];
  GatewayState sum = sum_of_two(one, other);
  EXPECT_EQ(sum.replicas.size(), 2U);
  EXPECT_EQ(sum.replicas.at("r1").phase, "serving");
  EXPECT_TRUE(sum.replicas.at("r1").eligible);
  EXPECT_TRUE(sum.replicas.at("r1").healthy);
  other.replicas["r1"].eligible = false;
  other.replicas["r1"].phase = "warming";
  sum = sum_of_two(one, other);
  EXPECT_EQ(sum.replicas.at("r1").phase, "draining");
  EXPECT_FALSE(sum.replicas.at("r1").eligible);
}

TEST(GatewaySum, DeferredRequestsAreSumsAndTheNextDeadlineIsTheFirst) {
  GatewayState one = state_of("a", 0), other = state_of("b", 0);
  one.deferral = GatewayDeferral{2, 30.0, 5, 1, 0, 0};
  EXPECT_EQ(sum_of_two(one, other).deferral->requests, 2U) << "the other one is older and reports none";
  other.deferral = GatewayDeferral{3, 20.0, 6, 2, 1, 1};
  const auto deferral = sum_of_two(one, other).deferral;
  EXPECT_EQ(deferral->requests, 5U);
  EXPECT_EQ(deferral->next_due_s, 20.0);
  other.deferral->next_due_s.reset();
  EXPECT_EQ(sum_of_two(one, other).deferral->next_due_s, 30.0);
}

TEST(GatewaySum, HotPrefixesHaveTheHitsOfAllGateways) {
  const std::vector<GatewayPrefix> one = {{"m", "/v1/completions", "x", 10, 3}, {"m", "/v1/completions", "y", 10, 2}};
  const std::vector<GatewayPrefix> other = {{"m", "/v1/completions", "y", 10, 2}};
  const auto sum = sum_of(std::vector<const std::vector<GatewayPrefix>*>{&one, &other});
  ASSERT_EQ(sum.size(), 2U);
  EXPECT_EQ(sum[0].body, "y");
  EXPECT_EQ(sum[0].hits, 4U);
  EXPECT_EQ(sum[1].hits, 3U);
}

TEST(GatewayTotals, DoNotDecreaseWhenAGatewayRestartsOrLeaves) {
  GatewayTotals totals;
  const auto total = [&] {
    GatewayState state;
    totals.put_into(state);
    return state.refused_total;
  };
  const auto take = [&](const char* boot, std::uint64_t refused) {
    GatewayState state = state_of(boot, 0);
    state.refused_total = refused;
    totals.take(state);
  };
  take("a", 5);
  take("b", 3);
  EXPECT_EQ(total(), 8U);
  take("b", 4);
  EXPECT_EQ(total(), 9U);
  take("b2", 1);
  EXPECT_EQ(total(), 10U) << "after a restart it counts from 0 again";
  take("a", 6);
  EXPECT_EQ(total(), 11U) << "b has left";
  take("b", 4);
  EXPECT_EQ(total(), 11U) << "it is back with what was counted before";
}

}  // namespace
}  // namespace penstock::controller
