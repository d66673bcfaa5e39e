#include "signals/data_state.h"

#include <gtest/gtest.h>

namespace penstock::signals {
namespace {

using namespace std::chrono_literals;

constexpr core::Instant kNow = core::kStart + 100s;

ReplicaObservation replica(ReplicaState state, core::Duration since, std::optional<core::Duration> sample_age) {
  ReplicaObservation made;
  made.state = state;
  made.state_since = kNow - since;
  if (sample_age) made.sample.emplace().sampled_at = kNow - *sample_age;
  return made;
}

Observation fleet(std::vector<std::vector<ReplicaObservation>> pools, std::uint32_t target = 1) {
  Observation seen;
  seen.now = kNow;
  for (const auto& replicas : pools) {
    PoolObservation& pool = seen.pools.emplace_back();
    pool.target_replicas = target;
    pool.replicas = replicas;
    for (const ReplicaObservation& each : replicas) {
      pool.ready += each.state == ReplicaState::kReady ? 1 : 0;
      pool.starting += each.state == ReplicaState::kStarting ? 1 : 0;
    }
  }
  return seen;
}

const ReplicaObservation kFine = replica(ReplicaState::kReady, 50s, 1s);
const ReplicaObservation kSilent = replica(ReplicaState::kReady, 50s, std::nullopt);
const ReplicaObservation kStale = replica(ReplicaState::kReady, 50s, 31s);
const ReplicaObservation kNew = replica(ReplicaState::kReady, 2s, std::nullopt);
const ReplicaObservation kStarting = replica(ReplicaState::kStarting, 50s, std::nullopt);

DataState observed(const Observation& seen) { return data_state(seen, kNow - 1s, false, {}); }
DataState owned(const Observation& seen) { return data_state(seen, kNow - 1s, true, {}); }

TEST(DataStateTest, WithoutARecentGatewayNothingIsKnown) {
  EXPECT_EQ(data_state(fleet({{kFine}}), std::nullopt, false, {}), DataState::kNoGateway);
  EXPECT_EQ(data_state(fleet({{kFine}}), kNow - 11s, true, {}), DataState::kNoGateway);
  EXPECT_EQ(data_state(fleet({{kFine}}), kNow - 9s, true, {}), DataState::kKnown);
}

TEST(DataStateTest, OneReplicaThatReportsIsEnoughForItsPool) {
  EXPECT_EQ(observed(fleet({{kSilent, kStale, kFine}})), DataState::kKnown);
  EXPECT_EQ(observed(fleet({{kFine}, {kSilent}})), DataState::kNoTelemetry);
  EXPECT_EQ(observed(fleet({{kStale}})), DataState::kNoTelemetry);
}

TEST(DataStateTest, AReplicaHasTimeForItsFirstReport) {
  EXPECT_EQ(observed(fleet({{kNew}})), DataState::kStarting);
  EXPECT_EQ(observed(fleet({{kNew, kSilent}})), DataState::kStarting);
}

TEST(DataStateTest, ObservedReplicasMustBeReadyAndOwnOnesMayStart) {
  EXPECT_EQ(observed(fleet({{}})), DataState::kNoReplicas);
  EXPECT_EQ(observed(fleet({{kStarting}})), DataState::kNoReplicas);
  EXPECT_EQ(observed(fleet({{kSilent}, {}})), DataState::kNoReplicas) << "the worse state counts";
  EXPECT_EQ(owned(fleet({{kStarting}})), DataState::kStarting);
  EXPECT_EQ(owned(fleet({{}}, 0)), DataState::kKnown) << "a pool that was scaled to zero";
}

TEST(DataStateTest, OnlyMissingTrafficAndMissingReplicasPreventDecisions) {
  for (const DataState state : kDataStates) {
    const bool is_blind =
        state == DataState::kNoGateway || state == DataState::kNoFleet || state == DataState::kNoReplicas;
    EXPECT_EQ(can_decide(state), !is_blind) << to_string(state);
    EXPECT_EQ(std::string_view{explain(state)}.empty(), state == DataState::kKnown) << to_string(state);
  }
}

}  // namespace
}  // namespace penstock::signals
