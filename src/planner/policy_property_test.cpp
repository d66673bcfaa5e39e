// What holds for every policy, whatever it is told: random observations of one to three pools over an hour or so.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <set>

#include "core/random.h"
#include "planner/planner_testing.h"

namespace penstock::planner {
namespace {

using signals::EngineSample;
using signals::Observation;
using signals::PoolObservation;
using signals::ReplicaState;
using signals::Role;

constexpr std::uint64_t kSequences = 40;
constexpr int kSteps = 60;

enum class Telemetry { kMixed, kNone };

EngineSample draw_sample(core::RandomStream& random, core::Instant now) {
  EngineSample sample;
  sample.sampled_at = now - core::from_seconds(random.below(4) == 0 ? random.uniform(0.0, 600.0) : 0.0);
  const bool idle = random.below(4) == 0;
  const std::uint64_t capacity = random.below(20) == 0 ? 0 : 1 + random.below(200'000);
  if (random.below(20) != 0) sample.kv_capacity_tokens = capacity;
  if (idle) return sample;
  sample.queued_requests = static_cast<std::uint32_t>(random.below(random.below(2) == 0 ? 4 : 400));
  sample.running_requests = static_cast<std::uint32_t>(random.below(256));
  // Every figure may be missing.
  const auto draw = [&](std::optional<std::uint64_t>& figure, std::uint64_t most) {
    if (random.below(20) != 0) figure = random.below(most + 1);
  };
  draw(sample.queued_prefill_tokens, 400'000);
  draw(sample.scheduled_kv_tokens, 250'000);
  draw(sample.queued_kv_tokens, 50'000);
  draw(sample.kv_used_tokens, capacity);
  return sample;
}

signals::LatencyWindow draw_latency(core::RandomStream& random, double median_ms) {
  if (random.below(4) == 0) return {};
  return {.count = 1 + random.below(50), .p90_ms = random.log_normal(median_ms, 2.0)};
}

signals::TrafficWindow draw_traffic(core::RandomStream& random) {
  signals::TrafficWindow traffic;
  if (random.below(8) == 0) return traffic;
  traffic.length = core::from_seconds(random.uniform(0.001, 60.0));
  if (random.below(4) == 0) return traffic;
  traffic.arrivals = random.below(2000);
  traffic.input_tokens = traffic.arrivals * random.below(8000);
  traffic.output_tokens = random.below(1'000'000);
  traffic.completed = random.below(2000);
  traffic.completed_output_tokens = traffic.completed * random.below(1000);
  traffic.ttft = draw_latency(random, 500.0);
  traffic.itl = draw_latency(random, 30.0);
  return traffic;
}

// `targets` are what was last decided; some replicas of them may have gone.
Observation draw(core::RandomStream& random, core::Instant now, const std::vector<Role>& roles,
                 const std::vector<std::uint32_t>& targets, Telemetry telemetry) {
  Observation observation;
  observation.now = now;
  for (std::size_t i = 0; i < roles.size(); ++i) {
    PoolObservation& pool = observation.pools.emplace_back();
    pool.role = roles[i];
    pool.min_replicas = static_cast<std::uint32_t>(i % 2);
    pool.max_replicas = 12;
    pool.target_replicas = targets[i];
    const auto lost = random.below(6) == 0 ? static_cast<std::uint32_t>(random.below(targets[i] + 1ULL)) : 0U;
    const std::uint32_t there = targets[i] - lost;
    pool.starting = random.below(3) == 0 ? static_cast<std::uint32_t>(random.below(there + 1ULL)) : 0U;
    pool.ready = there - pool.starting;
    pool.draining = static_cast<std::uint32_t>(random.below(3));
    const auto add = [&](ReplicaState state, std::uint32_t count) {
      for (std::uint32_t k = 0; k < count; ++k) {
        const auto id = static_cast<std::uint32_t>(100 * i + pool.replicas.size());
        pool.replicas.push_back({id, state, now, std::nullopt});
        if (state != ReplicaState::kStarting && telemetry == Telemetry::kMixed && random.below(5) != 0)
          pool.replicas.back().sample = draw_sample(random, now);
      }
    };
    add(ReplicaState::kDraining, pool.draining);
    add(ReplicaState::kReady, pool.ready);
    add(ReplicaState::kStarting, pool.starting);
    if (telemetry == Telemetry::kNone) continue;
    if (pool.ready == 0) pool.unrouted_requests = static_cast<std::uint32_t>(random.below(500));
    pool.last_minute = draw_traffic(random);
  }
  return observation;
}

std::vector<Role> draw_roles(core::RandomStream& random) {
  switch (random.below(3)) {
    case 0: return {Role::kAggregated};
    case 1: return {Role::kPrefill, Role::kDecode};
    default: return {Role::kAggregated, Role::kPrefill, Role::kDecode};
  }
}

PolicyContext draw_context(core::RandomStream& random) {
  PolicyContext context;
  context.capacity = {random.log_normal(2.0, 1.0), random.log_normal(5000.0, 1.0), random.log_normal(1000.0, 1.0),
                      random.log_normal(20.0, 1.0)};
  return context;
}

std::unique_ptr<Policy> made(std::string_view name, const PolicyContext& context) {
  auto policy = make_policy(name, context);
  EXPECT_TRUE(policy) << name;
  return std::move(*policy);
}

struct Step {
  Observation observation;
  Decision decision;
};

// Asks a policy along a sequence of which each step carries the targets of the one before.
std::vector<Step> play(std::string_view name, std::uint64_t seed, Telemetry telemetry = Telemetry::kMixed,
                       const std::vector<std::uint32_t>& first_targets = {}) {
  core::RandomStream random(seed);
  const std::vector<Role> roles = draw_roles(random);
  const auto policy = made(name, draw_context(random));
  std::vector<std::uint32_t> targets = first_targets;
  for (std::size_t i = targets.size(); i < roles.size(); ++i)
    targets.push_back(1 + static_cast<std::uint32_t>(random.below(8)));
  core::Instant now = core::kStart;
  std::vector<Step> steps;
  for (int step = 0; step < kSteps; ++step) {
    now += policy->interval() == core::Duration::max() ? std::chrono::seconds{15}
                                                       : policy->interval() * static_cast<int>(1 + random.below(4));
    Observation observation = draw(random, now, roles, targets, telemetry);
    Decision decision = policy->decide(observation);
    for (std::size_t i = 0; i < std::min(targets.size(), decision.pools.size()); ++i)
      targets[i] = decision.pools[i].target;
    steps.push_back({std::move(observation), std::move(decision)});
  }
  return steps;
}

template <class Check>
void for_each_pool_decision(Check check) {
  for (const std::string_view name : policy_names()) {
    for (std::uint64_t seed = 0; seed < kSequences; ++seed) {
      SCOPED_TRACE(std::string(name) + ", seed " + std::to_string(seed));
      for (const Step& step : play(name, seed)) {
        ASSERT_EQ(step.decision.pools.size(), step.observation.pools.size());
        for (std::size_t i = 0; i < step.decision.pools.size(); ++i)
          check(step.observation.pools[i], step.decision.pools[i]);
      }
      if (::testing::Test::HasFailure()) return;
    }
  }
}

TEST(PolicyProperty, EveryPoolIsDecidedOnInItsOrder) {
  for_each_pool_decision([](const PoolObservation& pool, const PoolDecision& decision) {
    EXPECT_EQ(decision.current, pool.target_replicas);
  });
}
TEST(PolicyProperty, TargetsStayWithinTheBoundsOfThePool) {
  for_each_pool_decision([](const PoolObservation& pool, const PoolDecision& decision) {
    EXPECT_GE(decision.target, pool.min_replicas);
    EXPECT_LE(decision.target, pool.max_replicas);
  });
}
TEST(PolicyProperty, EvidenceIsFiniteAndPresentWithTelemetry) {
  for_each_pool_decision([](const PoolObservation&, const PoolDecision& decision) {
    for (const Evidence& evidence : decision.evidence) EXPECT_TRUE(std::isfinite(evidence.value)) << evidence.name;
    EXPECT_TRUE(decision.reason == Reason::kNoData || !decision.evidence.empty()) << to_string(decision.reason);
  });
}
TEST(PolicyProperty, SentencesHaveNoControlCharacters) {
  for_each_pool_decision([](const PoolObservation&, const PoolDecision& decision) {
    const std::string text = sentence(decision);
    EXPECT_TRUE(std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isprint(c) != 0; })) << text;
  });
}
TEST(PolicyProperty, AReasonToHoldIsNeverGivenForAChange) {
  for_each_pool_decision([](const PoolObservation& pool, const PoolDecision& decision) {
    const bool holds = decision.reason == Reason::kNoData || decision.reason == Reason::kInsufficientData ||
                       decision.reason == Reason::kScalingInProgress || decision.reason == Reason::kFixed;
    EXPECT_TRUE(!holds || decision.target == pool.target_replicas) << to_string(decision.reason);
  });
}
TEST(PolicyProperty, TheSameSequenceGivesTheSameDecisions) {
  for (const std::string_view name : policy_names()) {
    for (std::uint64_t seed = 0; seed < 5; ++seed) {
      const std::vector<Step> first = play(name, seed);
      const std::vector<Step> second = play(name, seed);
      for (std::size_t step = 0; step < first.size(); ++step) {
        for (std::size_t i = 0; i < first[step].decision.pools.size(); ++i) {
          const PoolDecision& one = first[step].decision.pools[i];
          const PoolDecision& other = second[step].decision.pools[i];
          ASSERT_EQ(one.target, other.target) << name;
          ASSERT_EQ(one.reason, other.reason) << name;
          ASSERT_EQ(one.limited_by, other.limited_by) << name;
          ASSERT_EQ(sentence(one), sentence(other)) << name;
        }
      }
    }
  }
}

// Some peers publish rules in which missing telemetry reads as no load, and shrink on it; docs/policies.md says so.
const std::set<std::string_view> kMissingIsZero{"keda-tokens",      "llmd-slo",         "llmd-queue",
                                                "llmd-queue-guard", "llmd-token-aware", "llmd-pool-saturation"};

TEST(PolicyProperty, WithoutTelemetryNoPoolShrinks) {
  for (const std::string_view name : policy_names()) {
    if (kMissingIsZero.contains(name)) continue;
    for (std::uint64_t seed = 0; seed < kSequences; ++seed)
      for (const Step& step : play(name, seed, Telemetry::kNone))
        for (std::size_t i = 0; i < step.decision.pools.size(); ++i)
          ASSERT_GE(step.decision.pools[i].target, step.observation.pools[i].target_replicas)
              << name << ", seed " << seed;
  }
}
TEST(PolicyProperty, TelemetryThatEndsShrinksNoPoolOnceTheWindowsAreEmpty) {
  for (const std::string_view name : policy_names()) {
    if (kMissingIsZero.contains(name)) continue;
    for (std::uint64_t seed = 0; seed < kSequences; ++seed) {
      core::RandomStream random(seed);
      const std::vector<Role> roles{Role::kPrefill, Role::kAggregated};
      const auto policy = made(name, draw_context(random));
      std::vector<std::uint32_t> targets{4, 4};
      core::Instant now = core::kStart;
      const auto ask = [&](Telemetry telemetry) {
        now += std::chrono::seconds{15};
        const Decision decision = policy->decide(draw(random, now, roles, targets, telemetry));
        for (std::size_t i = 0; i < targets.size(); ++i) targets[i] = decision.pools[i].target;
      };
      for (int step = 0; step < 20; ++step) ask(Telemetry::kMixed);
      // "kpa" decides on its window of 60 s, as Knative does, for as long as it holds a value.
      for (int step = 0; step < 4; ++step) ask(Telemetry::kNone);
      for (int step = 0; step < 40; ++step) {
        const std::vector<std::uint32_t> before = targets;
        ask(Telemetry::kNone);
        for (std::size_t i = 0; i < targets.size(); ++i) ASSERT_GE(targets[i], before[i]) << name << ", seed " << seed;
      }
    }
  }
}
TEST(PolicyProperty, ExceptionsListedHereAreNeeded) {
  for (const std::string_view name : kMissingIsZero) {
    bool shrank = false;
    for (const Step& step : play(name, 1, Telemetry::kNone, {8, 8, 8}))
      for (std::size_t i = 0; i < step.decision.pools.size(); ++i)
        shrank |= step.decision.pools[i].target < step.observation.pools[i].target_replicas;
    EXPECT_TRUE(shrank) << name << " holds without telemetry: take it off the list";
  }
}

}  // namespace
}  // namespace penstock::planner
