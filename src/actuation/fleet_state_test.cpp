#include "actuation/fleet_state.h"

#include <gtest/gtest.h>

namespace penstock::actuation {
namespace {

FleetState fleet_of(std::uint32_t count) {
  FleetState fleet;
  for (std::uint32_t id = 1; id <= count; ++id) {
    Replica replica;
    replica.id = id;
    replica.pool = "decode";
    fleet.replicas.push_back(replica);
  }
  return fleet;
}

bool any_port(std::uint16_t /*port*/) { return true; }

TEST(Ports, AreUniqueAndReusedAsLateAsPossible) {
  FleetState fleet = fleet_of(4);
  const PortRange range{9000, 9002};
  EXPECT_EQ(reserve_port(fleet, 1, range, any_port), 9000);
  EXPECT_EQ(reserve_port(fleet, 2, range, any_port), 9001);
  fleet.replicas[0].stage = Stage::kStopped;
  EXPECT_EQ(reserve_port(fleet, 3, range, any_port), 9002);
  EXPECT_EQ(reserve_port(fleet, 4, range, any_port), 9000);
  EXPECT_EQ(reserve_port(fleet, 4, range, any_port), std::nullopt);
  EXPECT_EQ(fleet.replicas[3].ports, std::vector<std::uint16_t>{9000});
}

TEST(Ports, InUseByOtherProcessesAreSkipped) {
  FleetState fleet = fleet_of(1);
  EXPECT_EQ(reserve_port(fleet, 1, {65534, 65535}, [](std::uint16_t port) { return port == 65535; }), 65535);
  EXPECT_EQ(reserve_port(fleet, 1, {65534, 65535}, [](std::uint16_t port) { return port == 65535; }), std::nullopt);
  EXPECT_EQ(reserve_port(fleet, 1, {10, 9}, any_port), std::nullopt);
}

TEST(Stages, HaveNamesThatReadBack) {
  for (const Stage stage : {Stage::kRequested, Stage::kStarting, Stage::kWarming, Stage::kWaking, Stage::kServing,
                            Stage::kDraining, Stage::kAsleep, Stage::kStopping, Stage::kStopped, Stage::kFailed})
    EXPECT_EQ(stage_named(to_string(stage)), stage);
  EXPECT_EQ(stage_named("ready"), std::nullopt);
}

Replica at_stage(Stage stage, bool to_sleep = false) {
  Replica replica;
  replica.stage = stage;
  replica.to_sleep = to_sleep;
  return replica;
}

TEST(Stages, MapToTheReplicaStatesOfPolicies) {
  EXPECT_EQ(observed(at_stage(Stage::kRequested)), signals::ReplicaState::kStarting);
  EXPECT_EQ(observed(at_stage(Stage::kWarming)), signals::ReplicaState::kStarting);
  EXPECT_EQ(observed(at_stage(Stage::kWaking)), signals::ReplicaState::kStarting);
  EXPECT_EQ(observed(at_stage(Stage::kServing)), signals::ReplicaState::kReady);
  EXPECT_EQ(observed(at_stage(Stage::kAsleep)), signals::ReplicaState::kAsleep);
  EXPECT_EQ(observed(at_stage(Stage::kDraining)), signals::ReplicaState::kDraining);
  EXPECT_EQ(observed(at_stage(Stage::kStopping)), signals::ReplicaState::kDraining);
  EXPECT_EQ(observed(at_stage(Stage::kStopped)), signals::ReplicaState::kStopped);
  EXPECT_EQ(observed(at_stage(Stage::kFailed)), signals::ReplicaState::kCrashed);
}

TEST(Stages, AReplicaThatStartsInOrderToSleepAddsNoCapacity) {
  for (const Stage stage : {Stage::kRequested, Stage::kStarting, Stage::kWarming, Stage::kWaking})
    EXPECT_EQ(observed(at_stage(stage, true)), signals::ReplicaState::kAsleep);
}

TEST(Replicas, AreNamedByPoolAndNumber) { EXPECT_EQ(name_of(fleet_of(3).replicas[2]), "decode-3"); }

}  // namespace
}  // namespace penstock::actuation
