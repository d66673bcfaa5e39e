#include "planner/penstock/role_switch.h"

#include <gtest/gtest.h>

#include "core/random.h"
#include "planner/penstock/fleet_guardrails.h"
#include "planner/planner_testing.h"

namespace penstock::planner {
namespace {

using namespace std::chrono_literals;
using signals::Observation;
using signals::Role;
using testing::at_s;
using testing::engine;
using testing::pool_of;
using Counts = std::vector<std::uint32_t>;

// Idle pools that exchange replicas in 5 s, where a start-up takes 120 s.
Observation two_pools(std::uint32_t prefill, std::uint32_t decode, double seconds = 1000.0) {
  Observation observation;
  observation.now = at_s(seconds);
  observation.pools = {pool_of(prefill, engine(0), Role::kPrefill), pool_of(decode, engine(0), Role::kDecode)};
  for (signals::PoolObservation& pool : observation.pools) {
    pool.switch_time = 5s;
    pool.start_up = 120s;
    pool.min_replicas = 1;
    pool.max_replicas = 64;
    for (signals::ReplicaObservation& replica : pool.replicas)
      if (replica.sample) replica.sample->sampled_at = observation.now;
  }
  return observation;
}

std::vector<PoolDecision> decisions_of(const Observation& observation, const Counts& targets) {
  std::vector<PoolDecision> decisions;
  for (std::size_t i = 0; i < targets.size(); ++i)
    decisions.push_back({observation.pools[i].target_replicas, targets[i]});
  return decisions;
}

TEST(RoleSwitch, APoolGivesWhatItDoesNotNeedToAPartnerThatGrows) {
  const Observation observation = two_pools(6, 4);
  struct Case {
    Counts targets, needed, gives;
  };
  const Case cases[] = {
      {{6, 6}, {3, 6}, {2, 0}},                            // As many as the partner gains …
      {{6, 8}, {3, 8}, {3, 0}},                            // … as far as it does not need them …
      {{6, 8}, {0, 8}, {4, 0}},                            // … and as the partner lacks.
      {{5, 6}, {3, 6}, {1, 0}},                            // One that it releases anyway goes there too.
      {{4, 6}, {3, 6}, {0, 0}}, {{6, 4}, {3, 4}, {0, 0}},  // The partner does not grow.
      {{7, 6}, {7, 6}, {0, 0}},                            // Both grow.
      {{7, 4}, {7, 2}, {0, 1}},                            // The other direction.
      {{6, 6}, {9, 6}, {0, 0}},
  };
  for (const Case& each : cases)
    EXPECT_EQ(replicas_to_give(observation, decisions_of(observation, each.targets), each.needed), each.gives);
}

TEST(RoleSwitch, NothingIsGivenWithoutASwitchTimeOrBelowTheMinimum) {
  Observation observation = two_pools(6, 4);
  observation.pools[0].min_replicas = 5;
  EXPECT_EQ(replicas_to_give(observation, decisions_of(observation, {6, 8}), {1, 8}), (Counts{1, 0}));
  observation.pools[1].switch_time = {};
  EXPECT_EQ(replicas_to_give(observation, decisions_of(observation, {6, 8}), {1, 8}), (Counts{0, 0}));
  EXPECT_TRUE(exchanges_replicas(observation));  // Decode replicas may still become prefill replicas.
  observation.pools[0].switch_time = {};
  EXPECT_FALSE(exchanges_replicas(observation));
}

TEST(RoleSwitch, ASwitchIsFasterIfDrainAndSwitchTakeLessThanAStartUp) {
  Observation observation = two_pools(6, 4);
  EXPECT_FALSE(switch_is_faster(observation, 0));  // Unknown.
  observation.pools[1].last_minute.completed = 10;
  observation.pools[1].last_minute.completed_output_tokens = 10'000;
  observation.pools[1].last_minute.itl = {10, 20.0, 20.0, 30.0, 40.0, 50.0};
  EXPECT_TRUE(switch_is_faster(observation, 0));  // 1000 tokens at 40 ms drain for 40 s.
  observation.pools[0].start_up = 45s;
  EXPECT_FALSE(switch_is_faster(observation, 0));
  observation.pools[0].last_minute.ttft = {10, 500.0, 500.0, 800.0, 900.0, 1000.0};
  EXPECT_TRUE(switch_is_faster(observation, 1));
}

TEST(RoleSwitch, BothPoolsTogetherHoldTheLargestSumOfPlans) {
  Observation observation = two_pools(6, 4);
  observation.pools[1].last_minute.completed = 10;
  observation.pools[1].last_minute.completed_output_tokens = 1000;
  observation.pools[1].last_minute.itl = {10, 20.0, 20.0, 30.0, 40.0, 50.0};
  observation.pools[0].last_minute.ttft = {10, 500.0, 500.0, 800.0, 900.0, 1000.0};
  const auto held = [&](Counts proposed, const Counts& needed, std::uint32_t sum) {
    std::vector<PoolDecision> proposals = decisions_of(observation, proposed);
    share_hold(observation, needed, sum, proposals);
    return Counts{proposals[0].target, proposals[1].target};
  };
  EXPECT_EQ(held({6, 8}, {2, 7}, 11), (Counts{3, 8}));
  EXPECT_EQ(held({6, 8}, {2, 4}, 10), (Counts{4, 6}));
  EXPECT_EQ(held({6, 8}, {6, 7}, 10), (Counts{6, 7}));  // Not below the need.
  EXPECT_EQ(held({6, 8}, {2, 4}, 20), (Counts{6, 8}));
  observation.pools[0].start_up = 5s;  // A start is faster.
  EXPECT_EQ(held({6, 8}, {2, 4}, 10), (Counts{6, 8}));
}

TEST(RoleSwitch, FloorsOfASchedulesAreNeeded) {
  std::vector<PoolDecision> proposals(2);
  proposals[0].target = 5;
  proposals[0].reason = Reason::kSchedule;
  proposals[1].target = 5;
  Counts needed{2, 2};
  keep_scheduled(proposals, needed);
  EXPECT_EQ(needed, (Counts{5, 2}));
}

// ---- with guardrails ------------------------------------------------------------------------------------------------

TEST(RoleSwitch, GuardrailsLetAPoolGiveWithoutTheStabilisationWindow) {
  FleetGuardrails guardrails;
  const Observation observation = two_pools(6, 4);
  // Within the window nothing shrinks, …
  const auto held =
      guardrails.apply(observation, decisions_of(observation, {3, 4}), signals::ClockState::kSteady, {3, 4});
  EXPECT_EQ(held[0].target, 6U);
  // … and what the partner needs is given.
  const Observation next = two_pools(6, 4, 1005.0);
  const auto given = guardrails.apply(next, decisions_of(next, {3, 6}), signals::ClockState::kSteady, {3, 6});
  EXPECT_EQ(given[0].target, 4U);
  EXPECT_EQ(given[1].target, 6U);
  EXPECT_EQ(guardrails.given(), (Counts{2, 0}));
  // The next tick does not mistake it for a change by someone else.
  const Observation after = two_pools(4, 6, 1010.0);
  const auto then = guardrails.apply(after, decisions_of(after, {5, 6}), signals::ClockState::kSteady, {5, 6});
  EXPECT_EQ(then[0].target, 5U);
}

TEST(RoleSwitch, NothingIsGivenWhileTheReplicasAreNeededOrUnknown) {
  const auto target = [](Observation observation) {
    FleetGuardrails guardrails;
    return guardrails.apply(observation, decisions_of(observation, {6, 6}), signals::ClockState::kSteady, {3, 6})[0]
        .target;
  };
  EXPECT_EQ(target(two_pools(6, 4)), 4U);
  Observation queue = two_pools(6, 4);
  queue.pools[0].unrouted_requests = 1;
  EXPECT_EQ(target(queue), 6U);
  Observation stale = two_pools(6, 4);
  stale.pools[0].replicas[2].sample.reset();
  EXPECT_EQ(target(stale), 6U);
  Observation starting = two_pools(6, 4);
  starting.pools[0].starting = 1;
  EXPECT_EQ(target(starting), 6U);
  Observation draining = two_pools(6, 4);
  draining.pools[0].draining = 1;
  EXPECT_EQ(target(draining), 4U);
}

TEST(RoleSwitch, AnExchangeNeedsNoRoomInTheGpuBudget) {
  GuardrailOptions options;
  options.gpu_budget = 10;
  FleetGuardrails guardrails{options};
  const Observation observation = two_pools(6, 4);
  const auto given =
      guardrails.apply(observation, decisions_of(observation, {6, 7}), signals::ClockState::kSteady, {4, 7});
  EXPECT_EQ(given[0].target, 4U);
  EXPECT_EQ(given[1].target, 6U);  // Two replicas change; a third would exceed the budget.
  EXPECT_EQ(given[1].limited_by, Limit::kGpuBudget);
}

// For random pools: no pool falls below what it needs, the fleet never shrinks by an exchange, and pools only
// give to a partner that grows.
TEST(RoleSwitch, ExchangesNeverShrinkTheFleetOrAPoolBelowItsNeed) {
  core::RandomStream random{7};
  const auto some = [&](std::uint64_t most) { return static_cast<std::uint32_t>(1 + random.below(most)); };
  for (int i = 0; i < 20'000; ++i) {
    const Observation observation = two_pools(some(20), some(20));
    const Counts targets{some(24), some(24)}, needed{some(24), some(24)};
    const auto gives = replicas_to_give(observation, decisions_of(observation, targets), needed);
    for (std::size_t from = 0; from < 2; ++from) {
      const std::size_t to = 1 - from;
      if (gives[from] == 0) continue;
      ASSERT_EQ(gives[to], 0U);
      ASSERT_GE(targets[from] - gives[from], needed[from]);
      ASSERT_LE(gives[from], targets[to] - observation.pools[to].target_replicas);
      const std::uint32_t before = observation.pools[0].target_replicas + observation.pools[1].target_replicas;
      ASSERT_GE(targets[0] + targets[1] - gives[from], std::min(before, targets[0] + targets[1]));
    }
  }
}

}  // namespace
}  // namespace penstock::planner
