#include "simulation/world.h"

#include <gtest/gtest.h>

#include <cmath>

#include "simulation/world_testing.h"

namespace penstock::simulation {
namespace {

using testing::at_s;
using testing::disaggregated;
using testing::failures;
using testing::options;
using testing::pool;
using testing::random_workload;
using testing::requests_at;
using testing::run_ok;
using testing::Scripted;
using testing::steps;

TEST(World, OneRequestIsMeasuredFromItsArrival) {
  Scripted still = steps({});
  const auto result = run_ok(requests_at({5.0}, 100, 11), still, options(pool(1)));
  EXPECT_EQ(result.completed, 1U);
  EXPECT_NEAR(result.ttft_ms.mean, 11.0, 1e-3);  // 10 ms + 100 · 10 µs
  EXPECT_NEAR(result.tpot_ms.mean, 10.0, 1e-3);
  EXPECT_NEAR(result.e2e_ms.mean, 111.0, 1e-3);
  EXPECT_EQ(result.slo_attainment, 1.0);
  EXPECT_NEAR(result.duration_s, 5.111, 1e-6);
  EXPECT_NEAR(result.gpu_hours, 5.111 / 3600.0, 1e-9);
}

TEST(World, GpuHoursCountFromTheRequestForAReplicaToItsEnd) {
  RunOptions run_options = options(pool(1));
  run_options.pools[0].gpus_per_replica = 4;
  run_options.pools[0].price_per_gpu_hour = 2.5;
  Scripted policy = steps({{20.0, 2}, {50.0, 1}});  // asked for at 20, ready at 30, idle when drained at 50
  const auto result = run_ok(requests_at({0.0, 99.9}, 100, 11), policy, run_options);
  const double replica_hours = (99.9 + 0.111 + 30.0) / 3600.0;
  EXPECT_NEAR(result.gpu_hours, 4.0 * replica_hours, 1e-6);
  EXPECT_NEAR(result.cost, 10.0 * replica_hours, 1e-6);
  EXPECT_EQ(result.scaling_actions, 2U);
  EXPECT_EQ(result.direction_changes, 1U);
  EXPECT_EQ(result.peak_replicas, 2U);
}

TEST(World, ANewReplicaServesNothingBeforeItIsReady) {
  std::vector<std::uint32_t> ready;
  Scripted policy{[&](const signals::Observation& seen, std::size_t) {
    ready.push_back(seen.pools[0].ready);
    return 2U;
  }};
  (void)run_ok(requests_at({0.0, 20.0}, 100, 11), policy, options(pool(1)));
  // Asked for at 1 s, ready at 11 s; what happens at 11 s comes in the order it was scheduled.
  EXPECT_EQ(ready[9], 1U);
  EXPECT_EQ(ready[11], 2U);
}

TEST(World, ADrainingReplicaFinishesItsRequestsAndTakesNoNewOnes) {
  // 16 requests of 4 s each on two replicas; at 1 s one must go.
  std::vector<double> times(16, 0.0);
  times.push_back(2.0);
  std::uint32_t draining_seen = 0;
  Scripted policy{[&](const signals::Observation& seen, std::size_t) {
    draining_seen = std::max(draining_seen, seen.pools[0].draining);
    for (const auto& replica : seen.pools[0].replicas) {
      if (replica.state != signals::ReplicaState::kDraining) continue;
      EXPECT_LE(replica.sample->running_requests, 8U);
    }
    return 1U;
  }};
  const auto result = run_ok(requests_at(times, 10, 400), policy, options(pool(2)));
  EXPECT_EQ(result.failed, 0U);
  EXPECT_EQ(result.completed, 17U);
  EXPECT_EQ(draining_seen, 1U);
}

TEST(World, ScalingUpAndDownAtRandomFailsNoRequest) {
  for (const bool split : {false, true}) {
    for (std::uint64_t seed = 0; seed < 12; ++seed) {
      SCOPED_TRACE(seed);
      core::RandomStream random{seed};
      RunOptions run_options = split ? disaggregated(2, 2) : options(pool(2));
      run_options.router = static_cast<routing::Strategy>(seed % 4);
      run_options.seed = seed;
      Scripted policy{
          [&](const signals::Observation&, std::size_t) { return static_cast<std::uint32_t>(1 + random.below(6)); }};
      const auto result = run_ok(random_workload(1500, 20.0, seed), policy, run_options);
      EXPECT_EQ(result.failed, 0U);
      EXPECT_EQ(result.completed, 1500U);
      EXPECT_GT(result.scaling_actions, 20U);
    }
  }
}

TEST(World, RequestsWaitInFrontOfAPoolWhoseReplicasAllCrashed) {
  RunOptions run_options = options(pool(1));
  run_options.faults.crashes_per_replica_hour = 200.0;
  run_options.seed = 3;
  Scripted still = steps({});
  const auto result = run_ok(random_workload(3000, 10.0), still, run_options);
  EXPECT_GT(failures(result, "replica_crashed"), 0U);
  EXPECT_EQ(result.failed, failures(result, "replica_crashed"));
  EXPECT_EQ(result.completed + result.failed, 3000U);
  EXPECT_GT(result.ttft_ms.max, 5000.0);  // waited for a start-up
}

TEST(World, APoolWaitsLongerAfterEachCrashBeforeItStartsAReplacement) {
  RunOptions run_options = options(pool(1));
  run_options.pools[0].start_up = std::chrono::seconds{1};
  run_options.faults.crashes_per_replica_hour = 3600.0;  // a crash loop
  run_options.life_cycle.backoff_first = std::chrono::seconds{20};
  run_options.life_cycle.backoff_max = std::chrono::seconds{80};
  std::uint32_t starts = 0;
  core::Instant last_seen;
  Scripted policy{[&](const signals::Observation& seen, std::size_t) {
    for (const auto& replica : seen.pools[0].replicas)
      if (replica.state_since > last_seen && replica.state == signals::ReplicaState::kStarting) ++starts;
    last_seen = seen.now;
    return 1U;
  }};
  const auto result = run_ok(requests_at({0.0, 300.0}, 10, 2), policy, run_options);
  EXPECT_GE(starts, 3U);
  EXPECT_LE(starts, 6U);  // at about 20, 60, 140, 220 and 300 s
  EXPECT_LT(result.gpu_hours, 60.0 / 3600.0);
}

TEST(World, AReplicaThatDoesNotDrainInTimeIsStoppedAndItsRequestsEnd) {
  RunOptions run_options = options(pool(2));
  run_options.life_cycle.drain_deadline = std::chrono::seconds{2};
  Scripted policy = steps({{1.0, 1}});
  const auto result = run_ok(requests_at(std::vector<double>(16, 0.0), 10, 1000), policy, run_options);  // 10 s each
  EXPECT_EQ(failures(result, "replica_crashed"), 8U);
  EXPECT_EQ(result.completed, 8U);
}

TEST(World, AReplicaServesOnlyOnceItsWarmUpIsOver) {
  RunOptions run_options = options(pool(1));
  run_options.pools[0].start_up = std::chrono::seconds{10};
  run_options.pools[0].warm_up = std::chrono::seconds{4};
  std::vector<std::uint32_t> ready;
  Scripted policy{[&](const signals::Observation& seen, std::size_t) {
    ready.push_back(seen.pools[0].ready);
    return 2U;
  }};
  (void)run_ok(requests_at({0.0, 20.0}, 100, 11), policy, run_options);
  EXPECT_EQ(ready[9], 1U);  // 1 s is the first tick, and the replica answers from 7 s on
  EXPECT_EQ(ready[11], 2U);
}

TEST(World, CrashesInEveryPhaseLoseNoRequestFromTheCount) {
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    SCOPED_TRACE(seed);
    RunOptions run_options = disaggregated(3, 3);
    run_options.kv_transfer_bytes_per_s = 1e8;  // transfers take long enough to be hit
    run_options.faults.crashes_per_replica_hour = 120.0;
    run_options.faults.start_up_spread = 1.0;
    run_options.seed = seed;
    Scripted still = steps({});
    const auto result = run_ok(random_workload(2000, 10.0, seed), still, run_options);
    EXPECT_EQ(result.completed + result.failed, 2000U);
    EXPECT_EQ(result.failed, failures(result, "replica_crashed"));
    EXPECT_GT(result.completed, 1000U);
  }
}

TEST(World, ARequestThatCanNeverFitFailsWithItsReason) {
  RunOptions run_options = options(pool(1));
  run_options.pools[0].engine.kv_blocks = 50;  // 800 tokens
  Scripted still = steps({});
  auto workload = requests_at({0.0, 1.0}, 100, 11);
  workload.requests[1].input_tokens = 801;
  const auto result = run_ok(workload, still, run_options);
  EXPECT_EQ(result.completed, 1U);
  EXPECT_EQ(failures(result, "prompt_exceeds_kv_cache"), 1U);
  EXPECT_EQ(result.slo_attainment, 0.5);
}

TEST(World, AFailedRequestMissedItsSlo) {
  RunOptions run_options = options(pool(1));
  run_options.pools[0].engine.kv_blocks = 5;
  Scripted still = steps({});
  const auto result = run_ok(requests_at({0.0}, 1000, 2), still, run_options);
  EXPECT_EQ(result.slo_attainment, 0.0);
  EXPECT_EQ(result.goodput_rps, 0.0);
}

TEST(World, TimeToFirstTokenInADisaggregatedDeploymentIncludesTheTransferOfKv) {
  RunOptions run_options = disaggregated(1, 1);
  run_options.kv_bytes_per_token = 1e6;
  run_options.kv_transfer_bytes_per_s = 1e9;  // 100 tokens take 100 ms
  Scripted still = steps({});
  const auto result = run_ok(requests_at({0.0}, 100, 11), still, run_options);
  EXPECT_NEAR(result.ttft_ms.mean, 11.0 + 100.0, 1e-3);
  EXPECT_NEAR(result.e2e_ms.mean, 111.0 + 10 * 10.0, 1e-3);
}

TEST(World, TransfersFromOneReplicaFollowEachOther) {
  RunOptions run_options = disaggregated(1, 1);
  run_options.kv_bytes_per_token = 1e6;
  run_options.kv_transfer_bytes_per_s = 1e9;
  Scripted still = steps({});
  const auto result = run_ok(requests_at({0.0, 0.0}, 100, 11), still, run_options);
  EXPECT_NEAR(result.ttft_ms.max, 12.0 + 200.0, 1e-3);
}

TEST(World, SameSeedSameResultAndAnotherSeedAnother) {
  const auto workload = random_workload(2000, 40.0);
  RunOptions run_options = options(pool(3));
  run_options.router = routing::Strategy::kKv;
  run_options.faults.crashes_per_replica_hour = 10.0;
  run_options.faults.telemetry_loss = 0.2;
  const auto once = [&](std::uint64_t seed) {
    run_options.seed = seed;
    Scripted policy{[](const signals::Observation& seen, std::size_t) {
      return static_cast<std::uint32_t>(2 + seen.pools[0].last_minute.arrivals % 3);
    }};
    return run_ok(workload, policy, run_options);
  };
  const auto first = once(7), second = once(7), other = once(8);
  EXPECT_EQ(first.ttft_ms.mean, second.ttft_ms.mean);
  EXPECT_EQ(first.gpu_hours, second.gpu_hours);
  EXPECT_EQ(first.decisions.size(), second.decisions.size());
  EXPECT_NE(first.ttft_ms.mean, other.ttft_ms.mean);
}

TEST(World, MergedStepsGiveTheSameRunAsSingleOnes) {
  for (const routing::Strategy router : {routing::Strategy::kKv, routing::Strategy::kLeastLoaded}) {
    RunOptions run_options = options(pool(2));
    run_options.router = router;
    run_options.pools[0].engine.kv_blocks = 60;
    const auto workload = random_workload(1500, 12.0);
    const auto once = [&](bool merge) {
      run_options.merge_steps = merge;
      Scripted policy = steps({{30.0, 3}, {60.0, 1}});
      return run_ok(workload, policy, run_options);
    };
    const auto merged = once(true), single = once(false);
    EXPECT_EQ(merged.ttft_ms.mean, single.ttft_ms.mean);
    EXPECT_EQ(merged.e2e_ms.p99, single.e2e_ms.p99);
    EXPECT_EQ(merged.preemptions, single.preemptions);
    EXPECT_EQ(merged.gpu_hours, single.gpu_hours);
    EXPECT_EQ(merged.prefix_hit_ratio, single.prefix_hit_ratio);
    EXPECT_GT(merged.preemptions, 0U);
  }
}

TEST(World, DelayedTelemetryShowsThePast) {
  for (const auto delay :
       {std::chrono::milliseconds{300}, std::chrono::milliseconds{3500}, std::chrono::milliseconds{8000}}) {
    RunOptions run_options = options(pool(1));
    run_options.faults.telemetry_delay = delay;
    std::uint32_t reported = 0;
    Scripted policy{[&](const signals::Observation& seen, std::size_t) {
      const auto& sample = seen.pools[0].replicas[0].sample;
      if (sample) {
        EXPECT_EQ(seen.now - sample->sampled_at, core::Duration{delay});
        ++reported;
      }
      return 1U;
    }};
    (void)run_ok(requests_at({0.0, 20.0}, 100, 11), policy, run_options);
    EXPECT_GT(reported, 10U);
  }
}

TEST(World, LostTelemetryIsNeverZero) {
  RunOptions run_options = options(pool(1));
  run_options.faults.telemetry_loss = 0.5;
  std::uint32_t missing = 0, old = 0;
  Scripted policy{[&](const signals::Observation& seen, std::size_t) {
    const auto& sample = seen.pools[0].replicas[0].sample;
    missing += sample ? 0 : 1;
    old += sample && sample->sampled_at < seen.now ? 1 : 0;
    if (sample) {
      EXPECT_GT(sample->kv_capacity_tokens.value_or(0), 0U);
    }
    return 1U;
  }};
  (void)run_ok(random_workload(500, 5.0), policy, run_options);
  EXPECT_GT(old, 20U);
  EXPECT_LT(missing, 10U);
}

TEST(World, TheLastMinuteCountsWhatArrivedAndWhatWasGenerated) {
  std::vector<signals::TrafficWindow> windows;
  Scripted policy{[&](const signals::Observation& seen, std::size_t) {
    windows.push_back(seen.pools[0].last_minute);
    return 1U;
  }};
  std::vector<double> times;
  for (int i = 0; i < 200; ++i) times.push_back(i * 1.0 + 0.25);  // one a second, 11 tokens each
  (void)run_ok(requests_at(times, 100, 11), policy, options(pool(1)));
  const signals::TrafficWindow& window = windows[149];
  EXPECT_NEAR(core::to_seconds(window.length), 57.5, 2.6);
  EXPECT_NEAR(static_cast<double>(window.arrivals) / core::to_seconds(window.length), 1.0, 0.05);
  EXPECT_NEAR(static_cast<double>(window.output_tokens) / core::to_seconds(window.length), 11.0, 0.5);
  EXPECT_NEAR(window.ttft.mean_ms, 11.0, 0.2);
}

TEST(World, SeriesAddUpToTheTotals) {
  Scripted policy = steps({{20.0, 2}});
  RunOptions run_options = options(pool(1));
  run_options.series_points = 50;
  const auto result = run_ok(random_workload(1000, 15.0), policy, run_options);
  std::uint64_t arrived = 0, met = 0, completed = 0;
  for (const auto& point : result.series) {
    arrived += point.arrived;
    met += point.met_slo;
    completed += point.completed;
  }
  EXPECT_EQ(arrived, 1000U);
  EXPECT_EQ(completed, result.completed);
  EXPECT_NEAR(static_cast<double>(met), result.slo_attainment * 1000.0, 0.5);
  EXPECT_LE(result.series.size(), 80U);
}

TEST(World, SegmentsOfADimensionAddUpToAllRequests) {
  Scripted still = steps({});
  auto workload = random_workload(1000, 15.0);
  for (std::uint32_t tenant = 1; tenant < 30; ++tenant) workload.tenants.push_back("tenant-" + std::to_string(tenant));
  for (std::size_t i = 0; i < workload.requests.size(); ++i)
    workload.requests[i].tenant = static_cast<std::uint32_t>(i % 30);
  const auto result = run_ok(workload, still, options(pool(2)));
  std::map<std::string, std::uint64_t> requests;
  for (const auto& segment : result.segments) requests[segment.dimension] += segment.requests;
  EXPECT_EQ(requests.size(), 5U);
  for (const auto& [dimension, count] : requests) EXPECT_EQ(count, 1000U) << dimension;
}

TEST(World, ASlowReplicaIsSlow) {
  RunOptions run_options = options(pool(1));
  run_options.faults.events = {{FaultKind::kSlow, {}, {}, 1, {}, 3.0}};
  Scripted still = steps({});
  EXPECT_NEAR(run_ok(requests_at({0.0}, 100, 11), still, run_options).e2e_ms.mean, 333.0, 1e-3);
}

TEST(Run, PoolsThatMakeNoDeploymentAreAnError) {
  Scripted still = steps({});
  const auto workload = requests_at({0.0}, 10, 2);
  RunOptions run_options = disaggregated(1, 1);
  run_options.pools[1].role = signals::Role::kPrefill;
  EXPECT_FALSE(run(workload, still, run_options).has_value());
  run_options = options(pool(1));
  run_options.pools[0].step_time = nullptr;
  EXPECT_FALSE(run(workload, still, run_options).has_value());
  run_options = options(pool(1));
  run_options.pools[0].min_replicas = 2;
  EXPECT_EQ(run(workload, still, run_options).error().message(),
            "pools.default: needs min replicas <= replicas <= max replicas, has 2, 1, 16");
  EXPECT_FALSE(run(workload::Workload{}, still, options(pool(1))).has_value());
  EXPECT_EQ(run(requests_at({2.0, 1.0}, 10, 2), still, options(pool(1))).error().message(),
            "workload: its requests are not in the order of arrival");
}

TEST(Probe, OneReplicaKeepsTheSloAtTheProbedRateAndNotWellAboveIt) {
  const auto shapes = random_workload(2000, 1.0);
  RunOptions run_options = options(pool(1));
  run_options.slo = {std::chrono::milliseconds{300}, std::chrono::milliseconds{14}};
  const auto capacity = probe_capacity(shapes, run_options.pools[0], run_options);
  ASSERT_TRUE(capacity.has_value());
  Scripted still = steps({});
  const auto at_rate = [&](double rate) {
    return run_ok(random_workload(3000, rate, 9), still, run_options).slo_attainment;
  };
  EXPECT_GT(at_rate(capacity->requests_per_s * 0.9), 0.93);
  EXPECT_LT(at_rate(capacity->requests_per_s * 1.3), 0.93);
  EXPECT_NEAR(capacity->input_tokens_per_s / capacity->requests_per_s, 319.5, 15.0);
  EXPECT_NEAR(capacity->output_tokens_per_s / capacity->requests_per_s, 100.5, 6.0);
  EXPECT_GT(capacity->concurrency, 1.0);
}

TEST(Probe, PoolsOfADisaggregatedDeploymentAreProbedEach) {
  const auto shapes = random_workload(1000, 1.0);
  RunOptions run_options = disaggregated(1, 1);
  run_options.slo = {std::chrono::milliseconds{300}, std::chrono::milliseconds{14}};
  const auto prefill = probe_capacity(shapes, run_options.pools[0], run_options);
  const auto decode = probe_capacity(shapes, run_options.pools[1], run_options);
  RunOptions together = options(pool(1));
  together.slo = run_options.slo;
  const auto aggregated = probe_capacity(shapes, together.pools[0], together);
  ASSERT_TRUE(prefill && decode && aggregated);
  EXPECT_GT(prefill->requests_per_s, aggregated->requests_per_s);  // each has half of the work
  EXPECT_GT(decode->requests_per_s, aggregated->requests_per_s);
}

TEST(Probe, AQueueThatAnSloTheLengthOfTheTestAllowsIsNoCapacity) {
  const auto shapes = random_workload(1000, 1.0);
  for (const RunOptions& with_pools : {options(pool(1)), disaggregated(1, 1)}) {
    for (std::size_t probed = 0; probed < with_pools.pools.size(); ++probed) {
      RunOptions run_options = with_pools;
      run_options.slo = {std::chrono::seconds{2}, std::chrono::milliseconds{50}};
      const auto strict = probe_capacity(shapes, run_options.pools[probed], run_options);
      run_options.slo = {std::chrono::hours{1}, std::chrono::minutes{1}};
      const auto loose = probe_capacity(shapes, run_options.pools[probed], run_options);
      ASSERT_TRUE(strict && loose);
      EXPECT_GE(loose->requests_per_s, 0.99 * strict->requests_per_s) << probed;
      EXPECT_LT(loose->requests_per_s, 1.5 * strict->requests_per_s) << probed;
    }
  }
}

}  // namespace
}  // namespace penstock::simulation
