// Replicas that change between prefill and decode: when they serve, what they cost, and that no request fails.
#include <gtest/gtest.h>

#include <algorithm>

#include "simulation/world_testing.h"

namespace penstock::simulation {
namespace {

using namespace std::chrono_literals;
using testing::at_s;

// A start-up takes 60 s and a switch 3 s.
RunOptions with_switches(std::uint32_t prefill, std::uint32_t decode) {
  RunOptions options = testing::disaggregated(prefill, decode);
  for (PoolSpec& pool : options.pools) {
    pool.start_up = 60s;
    pool.switch_time = 3s;
  }
  return options;
}

std::vector<double> each(double until, double step) {
  std::vector<double> seconds;
  for (double second = 1.0; second <= until; second += step) seconds.push_back(second);
  return seconds;
}

// Sets the targets of both pools at given times, and keeps what it saw.
class Exchange final : public decision::Policy {
 public:
  struct Change {
    double at_s = 0.0;
    std::uint32_t prefill = 1, decode = 1;
  };
  explicit Exchange(std::vector<Change> changes) : changes_(std::move(changes)) {}
  [[nodiscard]] std::string_view name() const override { return "exchange"; }
  [[nodiscard]] core::Duration interval() const override { return 1s; }
  [[nodiscard]] decision::Decision decide(const signals::Observation& observation) override {
    seen.push_back(observation);
    decision::Decision decision;
    for (const signals::PoolObservation& pool : observation.pools)
      decision.pools.push_back({pool.target_replicas, pool.target_replicas});
    for (const Change& change : changes_)
      if (observation.now >= at_s(change.at_s)) {
        decision.pools[0].target = change.prefill;
        decision.pools[1].target = change.decode;
      }
    return decision;
  }
  [[nodiscard]] const signals::PoolObservation& at(double second, std::size_t pool) const {
    const auto found = std::find_if(seen.begin(), seen.end(), [&](const auto& o) { return o.now >= at_s(second); });
    return found->pools[pool];
  }
  std::vector<signals::Observation> seen;

 private:
  std::vector<Change> changes_;
};

TEST(RoleSwitch, AReplicaServesInTheOtherPoolAfterItsDrainAndTheSwitchTime) {
  const workload::Workload workload = testing::requests_at(each(60.0, 0.5), 200, 50);
  Exchange policy{{{10.0, 1, 2}}};
  const auto result = testing::run_ok(workload, policy, with_switches(2, 1));
  EXPECT_EQ(policy.at(10.0, 0).ready, 2U);
  EXPECT_EQ(policy.at(20.0, 0).ready, 1U);
  EXPECT_EQ(policy.at(20.0, 1).ready, 2U);
  EXPECT_EQ(policy.at(20.0, 1).replicas.front().replica, 2U);  // The same replica; none was started.
  EXPECT_EQ(result.role_switches, 1U);
  EXPECT_EQ(result.completed, workload.requests.size());
  EXPECT_NEAR(result.gpu_hours, 3.0 * result.duration_s / 3600.0, 1e-9);  // Paid throughout, and nothing twice.
  EXPECT_NEAR(result.mean_replicas, 3.0, 1e-9);
  EXPECT_EQ(result.peak_replicas, 3U);
  ASSERT_EQ(result.decisions.size(), 2U);
  EXPECT_EQ(decision::evidence_value(result.decisions[1], "role_switches", "replicas"), 1.0);
}

TEST(RoleSwitch, WithoutASwitchTimeTheReplicaStopsAndAnotherStarts) {
  const workload::Workload workload = testing::requests_at(each(100.0, 0.5), 200, 50);
  RunOptions options = with_switches(2, 1);
  for (PoolSpec& pool : options.pools) pool.switch_time = {};
  Exchange policy{{{10.0, 1, 2}}};
  const auto result = testing::run_ok(workload, policy, options);
  EXPECT_EQ(policy.at(65.0, 1).ready, 1U);
  EXPECT_EQ(policy.at(72.0, 1).ready, 2U);
  EXPECT_EQ(result.role_switches, 0U);
}

TEST(RoleSwitch, TheOtherPoolExpectsTheReplicaWhileItDrains) {
  // Answers of 1000 tokens last for more than 10 s, so that the decode replica drains for as long.
  const workload::Workload workload = testing::requests_at(each(20.0, 0.5), 50, 1000);
  Exchange policy{{{10.0, 2, 1}}};
  const auto result = testing::run_ok(workload, policy, with_switches(1, 2));
  EXPECT_EQ(policy.at(11.0, 0).switching, 1U);
  EXPECT_EQ(policy.at(11.0, 0).starting, 0U);
  EXPECT_EQ(policy.at(11.0, 1).draining, 1U);
  EXPECT_EQ(result.role_switches, 1U);
  EXPECT_EQ(result.completed, workload.requests.size());
}

TEST(RoleSwitch, AReplicaForgetsItsKvAndTheGatewayItsPrefixes) {
  const auto hits = [](bool switches) {
    workload::Workload workload = testing::requests_at({1.0, 2.0, 3.0, 60.0, 61.0, 62.0}, 96, 5);
    for (std::uint32_t block = 0; block < 6; ++block) workload.block_ids.push_back(block);
    for (workload::Request& request : workload.requests) request.block_count = 6;
    Exchange policy{switches ? std::vector<Exchange::Change>{{10.0, 1, 2}, {30.0, 2, 1}}
                             : std::vector<Exchange::Change>{}};
    RunOptions options = with_switches(2, 1);
    options.router = routing::Strategy::kRoundRobin;
    const auto result = testing::run_ok(workload, policy, options);
    EXPECT_EQ(result.role_switches, switches ? 2U : 0U);
    return result.prefix_hit_ratio;
  };
  EXPECT_GT(hits(false), hits(true));
}

TEST(RoleSwitch, AReplicaThatCrashesInItsSwitchIsReplacedInTheNewPool) {
  const workload::Workload workload = testing::requests_at(each(120.0, 0.5), 200, 20);
  RunOptions options = with_switches(2, 1);
  for (PoolSpec& pool : options.pools) pool.switch_time = 10s;
  FaultEvent crash;
  crash.kind = FaultKind::kCrash;
  crash.at = 15s;
  crash.replica = 2;
  options.faults.events = {crash};
  Exchange policy{{{10.0, 1, 2}}};
  const auto result = testing::run_ok(workload, policy, options);
  EXPECT_EQ(policy.at(14.0, 1).starting, 1U);
  EXPECT_EQ(policy.at(19.0, 1).starting, 1U);
  EXPECT_EQ(policy.at(19.0, 1).replicas.back().replica, 4U);
  EXPECT_EQ(policy.at(19.0, 1).actions_failed_total, 1U);
  EXPECT_EQ(policy.at(80.0, 1).ready, 2U);
  EXPECT_EQ(result.completed, workload.requests.size());
}

TEST(RoleSwitch, EachPoolPaysAReplicaAtItsPriceWhileItIsInThePool) {
  const workload::Workload workload = testing::requests_at(each(100.0, 0.5), 200, 1);
  RunOptions options = with_switches(2, 1);
  options.pools[0].price_per_gpu_hour = 1.0;
  options.pools[1].price_per_gpu_hour = 3.0;
  Exchange policy{{{50.0, 1, 2}}};
  const auto result = testing::run_ok(workload, policy, options);
  // One prefill and one decode replica to the end, and one that changes at the first instant after 50 s at which it is
  // idle.
  const double end = result.duration_s;
  const double cost = (end + 3.0 * end + 50.0 + 3.0 * (end - 50.0)) / 3600.0;
  EXPECT_NEAR(result.cost, cost, 1.0 / 3600.0);
  EXPECT_EQ(result.role_switches, 1U);
}

// Random targets, without crashes: every request completes, and the fleet is paid as the replicas that it has.
TEST(RoleSwitch, NoRequestFailsByASwitch) {
  std::uint64_t switches = 0;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    core::RandomStream random = core::RandomStream{seed}.fork("role switch");
    RunOptions options = testing::disaggregated(2, 2);
    options.router = static_cast<routing::Strategy>(random.below(5));
    options.faults.cache_event_delay = std::chrono::seconds{random.below(3)};
    options.life_cycle.take_back = random.below(2) == 0;
    options.check_each_event = true;
    for (PoolSpec& pool : options.pools) {
      pool.max_replicas = 6;
      pool.start_up = std::chrono::seconds{1 + random.below(20)};
      pool.switch_time = std::chrono::milliseconds{1 + random.below(4000)};
      if (random.below(3) != 0) continue;
      pool.wake_time = std::chrono::milliseconds{1 + random.below(4000)};
      pool.min_asleep = static_cast<std::uint32_t>(random.below(3));
    }
    std::uint32_t total = 0;
    testing::Scripted policy{[&](const signals::Observation& observation, std::size_t index) {
      if (index == 0 && random.below(3) == 0) total = static_cast<std::uint32_t>(2 + random.below(8));
      if (total == 0) return observation.pools[index].target_replicas;
      return index == 0 ? 1 + static_cast<std::uint32_t>(random.below(std::min(6U, total - 1)))
                        : std::max(1U, total - observation.pools[0].target_replicas);
    }};
    const workload::Workload workload = testing::random_workload(150, 1.0 + random.uniform() * 30.0, seed);
    const decision::RunResult result = testing::run_ok(workload, policy, options);
    EXPECT_EQ(result.completed, workload.requests.size());
    EXPECT_NEAR(result.gpu_hours, (result.mean_replicas + 0.15 * result.mean_asleep) * result.duration_s / 3600.0,
                1e-9);
    switches += result.role_switches;
    if (HasFailure()) return;
  }
  EXPECT_GT(switches, 20U);
}

}  // namespace
}  // namespace penstock::simulation
