#include "controller/observed_fleet.h"

#include <gtest/gtest.h>

#include <set>

#include "logging/log_testing.h"

namespace penstock::controller {
namespace {

using namespace std::chrono_literals;
using signals::ReplicaState;
using signals::Role;
constexpr core::Instant kNow = core::kStart + 100s;

GatewayReplica replica(std::string role, std::string phase, bool healthy = true) {
  GatewayReplica made;
  made.url = "http://127.0.0.1:9";
  made.model = "m";
  made.role = std::move(role);
  made.phase = std::move(phase);
  made.healthy = healthy;
  return made;
}

class ObservedFleetTest : public ::testing::Test {
 protected:
  signals::PoolObservation seen(std::size_t pool) const {
    signals::PoolObservation made;
    fleet.fill(pool, made);
    return made;
  }

  net::Loop loop;
  net::Client client{loop};
  logging::testing::CapturedLog log;
  ObservedFleet fleet{loop, client, log, {{{Role::kPrefill, "prefill"}, {Role::kDecode, "decode"}}, "m"}};
  GatewayState state;
};

TEST_F(ObservedFleetTest, ReplicasBelongToThePoolOfTheirRole) {
  state.replicas = {{"p1", replica("prefill", "serving")},
                    {"d1", replica("decode", "serving")},
                    {"d2", replica("decode", "warming")},
                    {"a1", replica("aggregated", "serving")},
                    {"d3", replica("decode", "serving")}};
  state.replicas["d3"].model = "another";
  fleet.update_gateway(state, kNow);
  EXPECT_EQ(seen(0).ready, 1U);
  EXPECT_EQ(seen(1).ready, 1U);
  EXPECT_EQ(seen(1).starting, 1U);
  EXPECT_EQ(seen(1).target_replicas, 2U);
  EXPECT_EQ(fleet.replicas(1).size(), 2U);
  EXPECT_FALSE(fleet.acts());
}

TEST_F(ObservedFleetTest, OfSeveralAggregatedPoolsTheReplicaNamesItsOwn) {
  ObservedFleet pools{loop, client, log, {{{Role::kAggregated, "short"}, {Role::kAggregated, "long"}}, "m"}};
  state.replicas = {{"a1", replica("aggregated", "serving")},
                    {"a2", replica("aggregated", "serving")},
                    {"a3", replica("aggregated", "serving")}};
  state.replicas["a1"].pool = "long";
  state.replicas["a2"].pool = "short";
  state.replicas["a3"].pool = "elsewhere";
  pools.update_gateway(state, kNow);
  ASSERT_EQ(pools.replicas(0).size(), 1U);
  EXPECT_EQ(pools.replicas(0)[0].name, "a2");
  ASSERT_EQ(pools.replicas(1).size(), 1U);
  EXPECT_EQ(pools.replicas(1)[0].name, "a1");
  EXPECT_EQ(pools.left_out(), 1U);
}

TEST_F(ObservedFleetTest, AReplicaOfAnotherModelIsReportedOnceWithTheRemedy) {
  state.replicas = {{"d1", replica("decode", "serving")}, {"d2", replica("decode", "serving")}};
  state.replicas["d2"].model = "another";
  for (int tick = 0; tick < 3; ++tick) fleet.update_gateway(state, kNow);
  EXPECT_EQ(fleet.left_out(), 1U);
  ASSERT_EQ(log.count(logging::Event::kReplicaLeftOut), 1U);
  ASSERT_EQ(fleet.events().size(), 2U);
  EXPECT_EQ(fleet.events()[1].text,
            "d2 is left out: it serves the model another, and this planner scales m; correct its URL, or start a "
            "planner with --model another");
  EXPECT_FALSE(fleet.events()[1].warning);
  // Another cause is another line. A planner without a replica needs attention.
  state.replicas = {{"d2", replica("aggregated", "serving")}};
  fleet.update_gateway(state, kNow);
  EXPECT_EQ(log.count(logging::Event::kReplicaLeftOut), 2U);
  EXPECT_TRUE(fleet.events().back().warning);
  EXPECT_NE(fleet.events().back().text.find("no pool has the role aggregated"), std::string::npos);
  state.replicas["d2"].role = "decode";
  fleet.update_gateway(state, kNow);
  EXPECT_EQ(fleet.left_out(), 0U);
}

TEST_F(ObservedFleetTest, WhatIsNotHealthyIsNotReady) {
  state.replicas = {{"d1", replica("decode", "serving", false)}, {"d2", replica("decode", "draining")}};
  fleet.update_gateway(state, kNow);
  EXPECT_EQ(seen(1).ready, 0U);
  EXPECT_EQ(seen(1).starting, 1U);
  EXPECT_EQ(seen(1).draining, 1U);
}

TEST_F(ObservedFleetTest, AStateHasTheTimeSinceWhichItHolds) {
  state.replicas = {{"d1", replica("decode", "warming")}};
  fleet.update_gateway(state, kNow);
  fleet.update_gateway(state, kNow + 1s);
  EXPECT_EQ(seen(1).replicas.at(0).state_since, kNow);
  state.replicas = {{"d1", replica("decode", "serving")}};
  fleet.update_gateway(state, kNow + 2s);
  fleet.update_gateway(state, kNow + 3s);
  EXPECT_EQ(seen(1).replicas.at(0).state_since, kNow + 2s);
  EXPECT_EQ(seen(1).replicas.at(0).state, ReplicaState::kReady);
}

TEST_F(ObservedFleetTest, ARemovedReplicaLosesItsNumber) {
  state.replicas = {{"d1", replica("decode", "serving")}};
  fleet.update_gateway(state, kNow);
  const std::uint32_t number = seen(1).replicas.at(0).replica;
  fleet.update_gateway(GatewayState{}, kNow + 1s);
  EXPECT_TRUE(seen(1).replicas.empty());
  fleet.update_gateway(state, kNow + 2s);
  EXPECT_NE(seen(1).replicas.at(0).replica, number);
  ASSERT_EQ(fleet.events().size(), 3U);
  EXPECT_EQ(fleet.events()[1].text, "the gateway does not list d1 any more");
}

TEST_F(ObservedFleetTest, AReplicaWithManyWorkersCountsAsSoMany) {
  state.replicas = {{"d1", replica("decode", "serving")}, {"d2", replica("decode", "serving")}};
  state.replicas["d2"].workers = 4;
  fleet.update_gateway(state, kNow);
  EXPECT_EQ(seen(1).ready, 5U);
  EXPECT_EQ(seen(1).target_replicas, 5U);
  const std::vector<ReplicaView> views = fleet.replicas(1);
  ASSERT_EQ(views.size(), 5U);
  EXPECT_EQ(views[1].name, "d2/1");
  std::set<std::uint32_t> numbers;
  for (const ReplicaView& view : views) numbers.insert(view.seen.replica);
  EXPECT_EQ(numbers.size(), 5U);
  // Workers that stay keep their numbers.
  state.replicas["d2"].workers = 2;
  fleet.update_gateway(state, kNow + 1s);
  ASSERT_EQ(fleet.replicas(1).size(), 3U);
  EXPECT_EQ(fleet.replicas(1).back().seen.replica, views[2].seen.replica);
  EXPECT_EQ(seen(1).ready, 3U);
}

TEST_F(ObservedFleetTest, AReplicaWithoutTelemetryHasNoSample) {
  state.replicas = {{"d1", replica("decode", "serving")}};
  fleet.update_gateway(state, kNow);
  EXPECT_FALSE(seen(1).replicas.at(0).sample);
}

}  // namespace
}  // namespace penstock::controller
