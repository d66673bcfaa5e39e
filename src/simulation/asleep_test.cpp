// Replicas that are asleep: growth wakes them, shrinking puts replicas to sleep, and no request fails by either.
#include <gtest/gtest.h>

#include <algorithm>

#include "simulation/world_testing.h"

namespace penstock::simulation {
namespace {

using namespace std::chrono_literals;
using testing::at_s;

// One replica serves and `asleep` more are asleep, of at most 8; a start-up takes 60 s and a wake-up 2 s.
RunOptions with_asleep(std::uint32_t asleep, std::uint32_t replicas = 1) {
  PoolSpec spec = testing::pool(replicas, 8);
  spec.start_up = 60s;
  spec.wake_time = 2s;
  spec.min_asleep = asleep;
  return testing::options(spec);
}

std::vector<double> every_second(double until, double step = 1.0) {
  std::vector<double> seconds;
  for (double second = 1.0; second <= until; second += step) seconds.push_back(second);
  return seconds;
}

// What a policy saw of its pool, and the targets that it set at times.
struct Seen {
  std::vector<signals::PoolObservation> pools;
  std::vector<core::Instant> at;

  [[nodiscard]] const signals::PoolObservation& at_second(double second) const {
    return pools[static_cast<std::size_t>(std::lower_bound(at.begin(), at.end(), at_s(second)) - at.begin())];
  }
};

decision::RunResult run_steps(const workload::Workload& workload, const RunOptions& options,
                              std::vector<std::pair<double, std::uint32_t>> changes, Seen& seen) {
  testing::Scripted policy{[&](const signals::Observation& observation, std::size_t pool) {
    seen.pools.push_back(observation.pools[pool]);
    seen.at.push_back(observation.now);
    std::uint32_t target = observation.pools[pool].target_replicas;
    for (const auto& [second, replicas] : changes)
      if (observation.now >= at_s(second)) target = replicas;
    return target;
  }};
  return testing::run_ok(workload, policy, options);
}

double gpu_hours(const decision::RunResult& result, double sleep_price) {
  return (result.mean_replicas + sleep_price * result.mean_asleep) * result.duration_s / 3600.0;
}

TEST(Asleep, GrowthWakesReplicasWithinTheWakeTimeAndStartsOthersForTheirPlace) {
  Seen seen;
  const auto result = run_steps(testing::requests_at(every_second(100.0), 50, 20), with_asleep(2), {{10.0, 3}}, seen);
  EXPECT_EQ(seen.at_second(10.0).asleep, 2U);
  EXPECT_EQ(seen.at_second(10.0).ready, 1U);
  EXPECT_EQ(seen.at_second(11.0).starting, 2U);           // They wake up …
  EXPECT_EQ(seen.at_second(11.0).starting_to_sleep, 2U);  // … and these take their place.
  EXPECT_EQ(seen.at_second(13.0).ready, 3U);
  EXPECT_EQ(seen.at_second(13.0).starting, 0U);
  EXPECT_EQ(seen.at_second(71.0).asleep, 2U);
  EXPECT_EQ(seen.at_second(71.0).starting_to_sleep, 0U);
  EXPECT_EQ(result.failed, 0U);
}

TEST(Asleep, GrowthBeyondThoseAsleepTakesTheStartUpTime) {
  Seen seen;
  run_steps(testing::requests_at(every_second(100.0), 50, 20), with_asleep(1), {{10.0, 3}}, seen);
  EXPECT_EQ(seen.at_second(13.0).ready, 2U);
  EXPECT_EQ(seen.at_second(69.0).ready, 2U);
  EXPECT_EQ(seen.at_second(71.0).ready, 3U);
}

TEST(Asleep, AReplicaThatIsNotNeededDrainsThenSleepsAndServesAgain) {
  RunOptions options = with_asleep(1, 2);
  options.pools[0].min_asleep = 0;
  class Policy final : public decision::Policy {
   public:
    [[nodiscard]] std::string_view name() const override { return "one asleep"; }
    [[nodiscard]] core::Duration interval() const override { return 1s; }
    [[nodiscard]] decision::Decision decide(const signals::Observation& observation) override {
      observations.pools.push_back(observation.pools[0]);
      observations.at.push_back(observation.now);
      decision::PoolDecision pool;
      pool.target = observation.now >= at_s(10.0) && observation.now < at_s(40.0) ? 1 : 2;
      pool.asleep = 2 - pool.target;
      decision::Decision decision;
      decision.pools = {pool};
      return decision;
    }
    Seen observations;
  } policy;
  // Answers of 200 tokens last for about two seconds, so that both replicas always have some.
  const workload::Workload workload = testing::requests_at(every_second(60.0, 0.25), 50, 200);
  const auto result = testing::run_ok(workload, policy, options);
  const Seen& seen = policy.observations;
  EXPECT_EQ(seen.at_second(11.0).draining, 1U);
  EXPECT_EQ(seen.at_second(11.0).asleep, 0U);
  EXPECT_EQ(seen.at_second(20.0).asleep, 1U);
  EXPECT_EQ(seen.at_second(20.0).asleep_target, 1U);
  EXPECT_EQ(seen.at_second(43.0).ready, 2U);
  EXPECT_EQ(seen.at_second(43.0).asleep, 0U);
  EXPECT_EQ(seen.at_second(43.0).replicas.back().replica, 2U);  // The same replica; none was started.
  EXPECT_EQ(result.completed, workload.requests.size());
  EXPECT_EQ(result.peak_replicas, 2U);
}

TEST(Asleep, TimeAsleepCostsItsShareOfThePrice) {
  RunOptions options = with_asleep(3);
  options.pools[0].price_per_gpu_hour = 2.0;
  options.pools[0].sleep_price = 0.25;
  Seen seen;
  const auto result = run_steps(testing::requests_at(every_second(200.0), 50, 20), options, {}, seen);
  EXPECT_NEAR(result.mean_replicas, 1.0, 1e-9);
  EXPECT_NEAR(result.mean_asleep, 3.0, 1e-9);
  EXPECT_NEAR(result.gpu_hours, 1.75 * result.duration_s / 3600.0, 1e-9);
  EXPECT_NEAR(result.cost, 2.0 * result.gpu_hours, 1e-9);
  EXPECT_EQ(result.series.back().asleep, 3U);
  EXPECT_NEAR(result.series.back().asleep_paid, 0.75, 1e-9);
}

TEST(Asleep, StartUpAndDrainOfReplicasThatSleepCostTheFullPrice) {
  Seen seen;
  const auto result = run_steps(testing::requests_at(every_second(100.0), 50, 20), with_asleep(2), {{10.0, 3}}, seen);
  // One replica, two from 10 s on, and two that start up from 10 s to 70 s; two sleep until 10 s and from 70 s on.
  const double end = result.duration_s;
  EXPECT_NEAR(result.mean_replicas * end, end + 2.0 * (end - 10.0) + 2.0 * 60.0, 1e-6);
  EXPECT_NEAR(result.mean_asleep * end, 2.0 * 10.0 + 2.0 * (end - 70.0), 1e-6);
  EXPECT_NEAR(result.gpu_hours, gpu_hours(result, 0.15), 1e-9);
}

TEST(Asleep, ReplicasAwakeAndAsleepNeverExceedTheMaximum) {
  Seen seen;
  const auto result = run_steps(testing::random_workload(2000, 20.0), with_asleep(6, 3),
                                {{10.0, 8}, {30.0, 1}, {40.0, 5}, {60.0, 2}, {70.0, 8}, {80.0, 3}}, seen);
  for (const signals::PoolObservation& pool : seen.pools) {
    EXPECT_LE(pool.target_replicas + pool.asleep_target, 8U);
    EXPECT_LE(pool.ready + pool.starting + pool.asleep + pool.starting_to_sleep, 8U);
  }
  EXPECT_EQ(result.failed, 0U);
}

TEST(Asleep, NoReplicaSleepsWithoutAWakeTime) {
  RunOptions options = with_asleep(2);
  options.pools[0].wake_time = {};
  Seen seen;
  const auto result = run_steps(testing::requests_at(every_second(20.0), 50, 20), options, {}, seen);
  EXPECT_EQ(result.mean_asleep, 0.0);
  EXPECT_EQ(seen.pools.back().asleep_target, 0U);
}

TEST(Asleep, AReplicaThatCrashesAsleepIsReplaced) {
  RunOptions options = with_asleep(1);
  FaultEvent crash;
  crash.kind = FaultKind::kCrash;
  crash.at = 20s;
  crash.replica = 2;
  options.faults.events = {crash};
  Seen seen;
  const auto result = run_steps(testing::requests_at(every_second(120.0), 50, 20), options, {}, seen);
  EXPECT_EQ(seen.at_second(19.0).asleep, 1U);
  EXPECT_EQ(seen.at_second(25.0).asleep, 0U);
  EXPECT_EQ(seen.at_second(25.0).starting_to_sleep, 1U);
  EXPECT_EQ(seen.at_second(90.0).asleep, 1U);
  EXPECT_EQ(result.failed, 0U);
}

TEST(Asleep, AReplicaAsleepTakesThePlaceOfOneThatCrashes) {
  RunOptions options = with_asleep(1);
  FaultEvent crash;
  crash.kind = FaultKind::kCrash;
  crash.at = 20s;
  crash.replica = 1;
  options.faults.events = {crash};
  Seen seen;
  run_steps(testing::requests_at(every_second(60.0), 50, 20), options, {}, seen);
  EXPECT_EQ(seen.at_second(23.0).ready, 1U);
}

// Prompts of one family are cached by the replica that served them; a replica forgets them when it sleeps.
TEST(Asleep, AReplicaForgetsItsPrefixesWhenItSleeps) {
  const auto hits = [](bool sleeps) {
    RunOptions options = with_asleep(0, 2);
    options.router = routing::Strategy::kRoundRobin;
    workload::Workload workload = testing::requests_at({1.0, 2.0, 30.0, 31.0}, 96, 5);
    for (std::uint32_t block = 0; block < 6; ++block) workload.block_ids.push_back(block);
    for (workload::Request& request : workload.requests) request.block_count = 6;
    class Policy final : public decision::Policy {
     public:
      explicit Policy(bool puts_to_sleep) : sleeps_(puts_to_sleep) {}
      [[nodiscard]] std::string_view name() const override { return "nap"; }
      [[nodiscard]] core::Duration interval() const override { return 1s; }
      [[nodiscard]] decision::Decision decide(const signals::Observation& observation) override {
        decision::PoolDecision pool;
        pool.target = sleeps_ && observation.now >= at_s(10.0) && observation.now < at_s(20.0) ? 1 : 2;
        pool.asleep = 2 - pool.target;
        decision::Decision decision;
        decision.pools = {pool};
        return decision;
      }

     private:
      bool sleeps_;
    } policy{sleeps};
    return testing::run_ok(workload, policy, options).prefix_hit_ratio;
  };
  EXPECT_GT(hits(false), hits(true));
}

// Random targets and numbers asleep, without faults: every request completes, and the maximum holds.
TEST(Asleep, NoRequestFailsByGoingToSleepOrWakingUp) {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    core::RandomStream random = core::RandomStream{seed}.fork("asleep");
    RunOptions options = random.below(3) == 0 ? testing::disaggregated(2, 2) : testing::options(testing::pool(2));
    options.router = static_cast<routing::Strategy>(random.below(5));
    options.faults.cache_event_delay = std::chrono::seconds{random.below(3)};
    options.life_cycle.take_back = random.below(2) == 0;
    options.check_each_event = true;
    for (PoolSpec& pool : options.pools) {
      pool.max_replicas = 6;
      pool.start_up = std::chrono::seconds{1 + random.below(20)};
      pool.wake_time = std::chrono::milliseconds{1 + random.below(4000)};
      pool.min_asleep = static_cast<std::uint32_t>(random.below(4));
    }
    bool within = true;
    testing::Scripted policy{[&](const signals::Observation& observation, std::size_t index) {
      const signals::PoolObservation& pool = observation.pools[index];
      within &= pool.target_replicas + pool.asleep_target <= 6;
      within &= pool.ready + pool.starting + pool.asleep + pool.starting_to_sleep <= 6;
      return static_cast<std::uint32_t>(1 + random.below(6));
    }};
    const workload::Workload workload = testing::random_workload(150, 1.0 + random.uniform() * 30.0, seed);
    const decision::RunResult result = testing::run_ok(workload, policy, options);
    EXPECT_EQ(result.completed, workload.requests.size());
    EXPECT_TRUE(within);
    EXPECT_NEAR(result.gpu_hours, gpu_hours(result, 0.15), 1e-9);
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace penstock::simulation
