#include "planner/penstock/fleet_guardrails.h"

#include <gtest/gtest.h>

#include <string>

#include "planner/planner_testing.h"

namespace penstock::planner {
namespace {

using signals::ClockState;
using signals::PoolObservation;
using signals::Role;
using testing::at_s;
using testing::bounded;
using testing::engine;
using testing::pool_of;
using testing::with_starting;

using Targets = std::vector<std::uint32_t>;

PoolObservation on_gpus(PoolObservation pool, std::uint32_t gpus_per_replica) {
  pool.gpus_per_replica = gpus_per_replica;
  return pool;
}

// A prefill and a decode pool of idle replicas.
std::vector<PoolObservation> split(std::uint32_t prefill, std::uint32_t decode, std::uint32_t prefill_gpus = 1,
                                   std::uint32_t decode_gpus = 1) {
  return {on_gpus(pool_of(prefill, engine(0), Role::kPrefill), prefill_gpus),
          on_gpus(pool_of(decode, engine(0), Role::kDecode), decode_gpus)};
}

class Fleet {
 public:
  explicit Fleet(std::optional<std::uint64_t> gpu_budget) {
    GuardrailOptions options;
    options.gpu_budget = gpu_budget;
    guardrails_ = FleetGuardrails{options};
  }

  Targets propose(double seconds, std::vector<PoolObservation> pools, const Targets& proposed,
                  ClockState clock = ClockState::kSteady) {
    signals::Observation observation;
    observation.now = at_s(seconds);
    observation.pools = std::move(pools);
    std::vector<PoolDecision> proposals;
    for (PoolObservation& pool : observation.pools)
      for (auto& replica : pool.replicas)
        if (replica.sample) replica.sample->sampled_at = observation.now;
    for (const std::uint32_t target : proposed) proposals.emplace_back().target = target;
    Targets targets;
    limits.clear();
    for (const PoolDecision& decision : guardrails_.apply(observation, proposals, clock)) {
      targets.push_back(decision.target);
      limits += std::string{targets.size() == 1 ? "" : ","} + to_string(decision.limited_by);
    }
    return targets;
  }
  std::string limits;  // Limits of the last decision, by pool.

 private:
  FleetGuardrails guardrails_;
};

TEST(FleetGuardrails, WithoutAStabilisationWindowAPoolShrinksAtOnce) {
  GuardrailOptions options;
  options.stabilisation = {};
  for (const bool reports_kv : {true, false}) {
    FleetGuardrails guardrails{options};
    std::uint32_t least = 8;
    for (double now = 0.0; now < 60.0; now += 5.0) {
      signals::Observation seen;
      seen.now = at_s(now);
      seen.pools = {pool_of(8, engine(0))};
      for (auto& replica : seen.pools[0].replicas) {
        replica.sample->sampled_at = seen.now;
        if (!reports_kv) replica.sample->kv_used_tokens.reset();
      }
      std::vector<PoolDecision> proposals(1);
      proposals[0].target = 7;
      least = std::min(least, guardrails.apply(seen, proposals)[0].target);
    }
    EXPECT_EQ(least, 7U) << reports_kv;
  }
}

TEST(FleetGuardrails, LimitNothingWithoutABudget) {
  Fleet fleet{std::nullopt};
  EXPECT_EQ(fleet.propose(0, split(10, 20), {30, 60}), (Targets{30, 60}));
  EXPECT_EQ(fleet.limits, ",");
}

TEST(FleetGuardrails, KeepAShrinkThatTheFleetDoesNotFollow) {
  Fleet fleet{std::nullopt};
  const auto propose = [&](double seconds, std::uint32_t replicas) {
    return fleet.propose(seconds, {pool_of(replicas, engine(0))}, {1}).front();
  };
  for (double seconds = 0.0; seconds < 300.0; seconds += 5.0) EXPECT_EQ(propose(seconds, 6), 6U);
  for (double seconds = 300.0; seconds < 500.0; seconds += 5.0) EXPECT_EQ(propose(seconds, 6), 4U) << seconds;
  // The next step waits for a minute from when the fleet has followed.
  for (double seconds = 500.0; seconds < 555.0; seconds += 5.0) EXPECT_EQ(propose(seconds, 4), 4U) << seconds;
  EXPECT_EQ(propose(555, 4), 3U);
}

TEST(FleetGuardrails, HoldOnlyShrinkingAfterAFailedShrink) {
  Fleet fleet{std::nullopt};
  const auto failed = [](std::uint32_t replicas, std::uint64_t count) {
    std::vector<PoolObservation> pools{pool_of(replicas, engine(0))};
    pools[0].shrinks_failed_total = count;
    return pools;
  };
  for (double seconds = 0.0; seconds < 300.0; seconds += 30.0) (void)fleet.propose(seconds, failed(8, 1), {7});
  EXPECT_EQ(fleet.propose(301, failed(8, 2), {7}), Targets{8});
  EXPECT_EQ(fleet.limits, "cooldown");
  EXPECT_EQ(fleet.propose(420, failed(8, 2), {7}), Targets{8}) << "for two minutes";
  EXPECT_EQ(fleet.propose(421, failed(8, 2), {7}), Targets{7});
  EXPECT_EQ(fleet.propose(430, failed(7, 3), {9}), Targets{9}) << "the pool may grow";
}

TEST(FleetGuardrails, LetGrowthThroughThatTheBudgetAllows) {
  Fleet fleet{12 + 8 * 4};
  EXPECT_EQ(fleet.propose(0, split(4, 2, 2, 8), {6, 4}), (Targets{6, 4}));
  EXPECT_EQ(fleet.limits, ",");
}

TEST(FleetGuardrails, KeepTheProposedRatioWhenGrowthIsLimited) {
  struct Case {
    std::uint64_t budget;
    Targets has, proposed, gpus, granted;
  };
  const std::vector<Case> cases = {
      {9, {2, 3}, {4, 8}, {1, 1}, {3, 6}},   // three quarters of each
      {10, {2, 3}, {4, 8}, {1, 1}, {3, 7}},  // 3.33 and 6.67
      {8, {2, 3}, {4, 8}, {1, 1}, {3, 5}},   // 2.67 and 5.33
      {9, {4, 3}, {5, 7}, {1, 1}, {4, 5}},   // the ratio wants 3.57 of the first, which has 4
      {40, {2, 3}, {4, 8}, {4, 4}, {3, 7}},  // ten replicas of four GPUs
      {42, {2, 2}, {4, 4}, {8, 4}, {3, 4}},  // 3.5 each, and 6 GPUs left, into which one of the second fits
      {27, {4, 1}, {8, 4}, {2, 4}, {7, 3}},  // 6.75 and 3.375, and 3 GPUs left
  };
  for (const Case& it : cases) {
    SCOPED_TRACE(it.budget);
    Fleet fleet{it.budget};
    const Targets granted = fleet.propose(0, split(it.has[0], it.has[1], it.gpus[0], it.gpus[1]), it.proposed);
    std::uint64_t gpus = 0;
    for (std::size_t i = 0; i < 2; ++i) gpus += static_cast<std::uint64_t>(granted[i]) * it.gpus[i];
    EXPECT_LE(gpus, it.budget);
    EXPECT_EQ(granted, it.granted);
  }
}

TEST(FleetGuardrails, NameTheBudgetOnlyWhereItCuts) {
  Fleet fleet{9};
  EXPECT_EQ(fleet.propose(0, split(2, 2), {2, 20}), (Targets{2, 6}));
  EXPECT_EQ(fleet.limits, ",growth_rate");  // seven GPUs are left
  Fleet tight{7};
  EXPECT_EQ(tight.propose(0, split(2, 2), {2, 20}), (Targets{2, 5}));
  EXPECT_EQ(tight.limits, ",gpu_budget");
}

TEST(FleetGuardrails, CountReplicasThatDrainAsLongAsTheyHoldGpus) {
  auto pools = split(2, 4, 1, 2);
  pools[0].draining = 3;
  Fleet fleet{2 + 3 + 2 * 5};
  EXPECT_EQ(fleet.propose(0, pools, {2, 8}), (Targets{2, 5}));
  pools[0].draining = 0;
  EXPECT_EQ(fleet.propose(5, split(2, 5, 1, 2), {2, 8}), (Targets{2, 6}));
}

TEST(FleetGuardrails, CountReplicasThatStartOrServeBeyondTheTarget) {
  auto pools = split(2, 4);
  pools[0].starting = 2;  // three more than the target, which drain next
  pools[0].ready = 3;
  Fleet fleet{10};
  EXPECT_EQ(fleet.propose(0, pools, {2, 8}), (Targets{2, 5}));
}

TEST(FleetGuardrails, CountStuckReplicasBecauseTheyHoldGpus) {
  auto pools = split(2, 4);
  pools[0].stuck_ending = 3;  // Beside the two of the target.
  Fleet not_ending{10};
  EXPECT_EQ(not_ending.propose(0, pools, {2, 8}), (Targets{2, 5}));
  EXPECT_EQ(not_ending.limits, ",gpu_budget");
  pools[0].stuck_ending = 0;
  pools[0].stuck = 3;
  pools[0].ready = 1;  // Of the three that cannot start, one is of the target.
  Fleet not_starting{10};
  EXPECT_EQ(not_starting.propose(0, pools, {2, 8}), (Targets{2, 6}));
  EXPECT_EQ(not_starting.limits, ",gpu_budget");
}

TEST(FleetGuardrails, ShrinkNoPoolForTheGrowthOfAnother) {
  Fleet fleet{10};
  for (double seconds = 0.0; seconds < 900.0; seconds += 30.0) {
    ASSERT_EQ(fleet.propose(seconds, split(6, 4), {6, 9}), (Targets{6, 4}));
    ASSERT_EQ(fleet.limits, ",gpu_budget");
  }
}

TEST(FleetGuardrails, WaitUntilDrainingReplicasFreeTheirGpus) {
  Fleet fleet{10};
  for (double seconds = 0.0; seconds < 300.0; seconds += 30.0)
    ASSERT_EQ(fleet.propose(seconds, split(6, 4), {4, 6}), (Targets{6, 4}));
  ASSERT_EQ(fleet.propose(300, split(6, 4), {4, 6}), (Targets{4, 4}));
  auto draining = split(4, 4);
  draining[0].draining = 2;
  EXPECT_EQ(fleet.propose(305, draining, {4, 6}), (Targets{4, 4}));
  draining[0].draining = 1;
  EXPECT_EQ(fleet.propose(310, draining, {4, 6}), (Targets{4, 5}));
}

TEST(FleetGuardrails, GrantMinReplicasEvenAboveTheBudget) {
  Fleet fleet{4};
  EXPECT_EQ(fleet.propose(0, {pool_of(2, engine(0)), bounded(pool_of(2, engine(0)), 5, 9)}, {4, 7}), (Targets{2, 5}));
}

TEST(FleetGuardrails, ShrinkTowardsALoweredBudgetByTheRulesOfShrinking) {
  Fleet fleet{9};
  Targets has = {6, 12};
  double first_shrunk = 0.0;
  Targets before = has;
  for (double seconds = 0.0; seconds < 1500.0; seconds += 5.0) {
    const Targets decided = fleet.propose(seconds, split(has[0], has[1]), {8, 16});
    for (std::size_t i = 0; i < 2; ++i) {
      ASSERT_LE(decided[i], has[i]);
      ASSERT_GE(decided[i] + std::max(1.0, 0.34 * has[i]), has[i]);
    }
    if (decided != has && first_shrunk == 0.0) first_shrunk = seconds;
    has = decided;
  }
  EXPECT_GE(first_shrunk, 300.0);
  EXPECT_EQ(has, (Targets{3, 6}));
  EXPECT_EQ(fleet.limits, "gpu_budget,gpu_budget");
  EXPECT_NE(has, before);
}

TEST(FleetGuardrails, HoldAllPoolsWhileTheClockIsNotSteady) {
  for (const ClockState clock : {ClockState::kLeapt, ClockState::kWentBack}) {
    Fleet fleet{100};
    EXPECT_EQ(fleet.propose(0, split(2, 4), {3, 5}), (Targets{3, 5}));
    EXPECT_EQ(fleet.propose(1000, split(3, 5), {9, 4}, clock), (Targets{3, 5}));
    EXPECT_EQ(fleet.limits, "clock_jump,clock_jump");
  }
}

TEST(FleetGuardrails, DoNotMistakeTheirOwnLimitForAManualChange) {
  Fleet fleet{7};
  EXPECT_EQ(fleet.propose(0, split(2, 2), {2, 8}), (Targets{2, 5}));
  EXPECT_EQ(fleet.propose(5, split(2, 5), {2, 8}), (Targets{2, 5}));
  EXPECT_EQ(fleet.limits, ",gpu_budget");
}

}  // namespace
}  // namespace penstock::planner
