#include "signals/sanitize.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "telemetry/forward_pass.h"

namespace penstock::signals {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinite = std::numeric_limits<double>::infinity();

core::Instant at_s(double seconds) { return core::kStart + core::from_seconds(seconds); }

EngineSample busy(double seconds) {
  EngineSample sample;
  sample.sampled_at = at_s(seconds);
  sample.queued_requests = 2;
  sample.queued_prefill_tokens = 100;
  sample.oldest_queued_age = std::chrono::milliseconds{20};
  sample.running_requests = 3;
  sample.scheduled_kv_tokens = sample.kv_used_tokens = 500;
  sample.kv_capacity_tokens = 1000;
  sample.generation_tokens_total = 5000;
  sample.batch_merge_efficiency = 0.4;
  return sample;
}

// A pool of ready and busy replicas.
Observation seen(double seconds, std::uint32_t replicas = 3) {
  Observation observation;
  observation.now = at_s(seconds);
  PoolObservation& pool = observation.pools.emplace_back();
  pool.ready = pool.target_replicas = replicas;
  for (std::uint32_t i = 0; i < replicas; ++i)
    pool.replicas.push_back({10 + i, ReplicaState::kReady, {}, busy(seconds)});
  pool.arrivals_total = 100;
  pool.last_minute.length = std::chrono::minutes{1};
  pool.last_minute.ttft = {20, 100.0, 90.0, 150.0, 180.0, 200.0};
  pool.last_minute.itl = {20, 10.0, 9.0, 15.0, 18.0, 20.0};
  return observation;
}

std::string named(const Findings& findings) {
  std::string names;
  for (const Issue& issue : findings.issues) names += std::string{names.empty() ? "" : ","} + to_string(issue.what);
  return names;
}

TEST(Sanitizer, FindsNothingWrongWithAHealthyFleet) {
  Sanitizer sanitizer;
  for (const double seconds : {100.0, 105.0, 110.0}) {
    Observation observation = seen(seconds);
    const Findings& findings = sanitizer.clean(observation);
    EXPECT_EQ(named(findings), "");
    EXPECT_EQ(findings.clock, ClockState::kSteady);
    EXPECT_TRUE(observation.pools[0].replicas[0].sample);
    EXPECT_EQ(observation.pools[0].last_minute.ttft.count, 20U);
  }
}

TEST(Sanitizer, AcceptsAnIdleEngine) {
  Sanitizer sanitizer;
  Observation observation = seen(100.0, 1);
  EngineSample idle;
  idle.sampled_at = at_s(100.0);
  idle.kv_capacity_tokens = 1000;
  observation.pools[0].replicas[0].sample = idle;
  EXPECT_EQ(named(sanitizer.clean(observation)), "");
  EXPECT_TRUE(observation.pools[0].replicas[0].sample);
}

TEST(Sanitizer, DropsAContradictorySample) {
  const std::vector<std::pair<const char*, std::function<void(EngineSample&)>>> odds = {
      {"future_sample", [](auto& sample) { sample.sampled_at = at_s(100.001); }},
      {"sample_before_start", [](auto& sample) { sample.sampled_at = at_s(-1.0); }},
      {"negative_age", [](auto& sample) { sample.oldest_queued_age = -std::chrono::seconds{1}; }},
      {"kv_over_capacity", [](auto& sample) { sample.kv_used_tokens = 1001; }},
      {"kv_over_capacity", [](auto& sample) { sample.kv_capacity_tokens = 0; }},
      {"queue_disagrees", [](auto& sample) { sample.queued_requests = 0; }},
      {"running_disagrees", [](auto& sample) { sample.running_requests = 0; }},
      {"running_disagrees", [](auto& sample) { sample.scheduled_kv_tokens = sample.kv_used_tokens = 0; }},
      {"share_out_of_range", [](auto& sample) { sample.batch_merge_efficiency = kNan; }},
      {"share_out_of_range", [](auto& sample) { sample.batch_merge_efficiency = 1.5; }},
  };
  for (const auto& [name, break_it] : odds) {
    SCOPED_TRACE(name);
    Sanitizer sanitizer;
    Observation observation = seen(100.0);
    break_it(*observation.pools[0].replicas[1].sample);
    const Findings& findings = sanitizer.clean(observation);
    EXPECT_EQ(named(findings), name);
    EXPECT_EQ(findings.issues.at(0).replica, 11U);
    EXPECT_FALSE(observation.pools[0].replicas[1].sample);
    EXPECT_TRUE(observation.pools[0].replicas[0].sample);
  }
}

TEST(Sanitizer, KeepsOldSamplesAndReportsNoMissingOnes) {
  Sanitizer sanitizer;
  Observation observation = seen(100.0);
  observation.pools[0].replicas[0].sample.reset();
  observation.pools[0].replicas[1].sample->sampled_at = at_s(69.0);
  EXPECT_EQ(named(sanitizer.clean(observation)), "");
  EXPECT_TRUE(observation.pools[0].replicas[1].sample);
}

TEST(Sanitizer, DropsOneSampleWhenCountersGoBackAndGoesOnFromThere) {
  Sanitizer sanitizer;
  const auto with_generated = [&](double seconds, std::uint64_t tokens) {
    Observation observation = seen(seconds);
    observation.pools[0].replicas[2].sample->generation_tokens_total = tokens;
    return named(sanitizer.clean(observation));
  };
  EXPECT_EQ(with_generated(100.0, 5000), "");
  EXPECT_EQ(with_generated(105.0, 12), "counter_went_back");
  EXPECT_EQ(with_generated(110.0, 20), "");
}

TEST(Sanitizer, RemembersEachReplicaInWhateverOrderTheyCome) {
  Sanitizer sanitizer;
  Observation first = seen(100.0);
  std::swap(first.pools[0].replicas[0], first.pools[0].replicas[2]);
  EXPECT_EQ(named(sanitizer.clean(first)), "");
  Observation silent = seen(105.0);
  silent.pools[0].replicas[1].sample.reset();
  EXPECT_EQ(named(sanitizer.clean(silent)), "");
  Observation last = seen(110.0);
  last.pools[0].replicas[1].sample->generation_tokens_total = 4999;
  const Findings& findings = sanitizer.clean(last);
  EXPECT_EQ(named(findings), "counter_went_back");
  EXPECT_EQ(findings.issues.at(0).replica, 11U);
}

TEST(Sanitizer, RefusesASampleThatIsOlderThanTheOneBefore) {
  Sanitizer sanitizer;
  Observation first = seen(100.0, 1), second = seen(105.0, 1);
  EXPECT_EQ(named(sanitizer.clean(first)), "");
  second.pools[0].replicas[0].sample->sampled_at = at_s(99.0);
  EXPECT_EQ(named(sanitizer.clean(second)), "sample_out_of_order");
}

TEST(Sanitizer, EmptiesWindowsWithFiguresThatAreNotFinite) {
  for (const double figure : {kNan, kInfinite, -kInfinite, -1.0}) {
    Sanitizer sanitizer;
    Observation observation = seen(100.0);
    TrafficWindow& traffic = observation.pools[0].last_minute;
    traffic.ttft.p95_ms = figure;
    EXPECT_EQ(named(sanitizer.clean(observation)), "latency_no_number");
    EXPECT_EQ(traffic.ttft.count, 0U);
    EXPECT_EQ(traffic.ttft.p95_ms, 0.0);
    EXPECT_EQ(traffic.itl.count, 20U);
  }
}

TEST(Sanitizer, EmptiesTheWindowsOfADiagnosisToo) {
  Sanitizer sanitizer;
  Observation observation = seen(100.0);
  PoolDetail& detail = observation.pools[0].detail.emplace();
  detail.segments.push_back({"tenant", "a", {5, kNan, 1.0, 1.0, 1.0, 1.0}, {5, 1.0, 1.0, 1.0, 1.0, 1.0}});
  detail.first_tokens.count = 7;
  detail.first_tokens.queue.p95_ms = kInfinite;
  detail.oldest_unrouted_age = -std::chrono::seconds{1};
  EXPECT_EQ(named(sanitizer.clean(observation)), "negative_age,latency_no_number");
  EXPECT_EQ(detail.segments[0].ttft.count, 0U);
  EXPECT_EQ(detail.segments[0].itl.count, 5U);
  EXPECT_EQ(detail.first_tokens.count, 0U);
  EXPECT_EQ(detail.oldest_unrouted_age, core::Duration{});
}

TEST(Sanitizer, EmptiesATrafficWindowOfNegativeLength) {
  Sanitizer sanitizer;
  Observation observation = seen(100.0);
  observation.pools[0].last_minute.length = -std::chrono::seconds{60};
  EXPECT_EQ(named(sanitizer.clean(observation)), "traffic_out_of_range");
  EXPECT_EQ(observation.pools[0].last_minute.ttft.count, 0U);
}

TEST(Sanitizer, ReportsContradictoryCountsOfAPool) {
  Sanitizer sanitizer;
  Observation observation = seen(100.0);
  observation.pools[0].ready = 4;
  const Findings& findings = sanitizer.clean(observation);
  EXPECT_EQ(named(findings), "replica_counts");
  EXPECT_EQ(findings.issues.at(0).replica, std::nullopt);
}

TEST(Sanitizer, ReportsDecreasingCountersOfAPool) {
  Sanitizer sanitizer;
  Observation first = seen(100.0), second = seen(105.0), third = seen(110.0);
  second.pools[0].arrivals_total = third.pools[0].arrivals_total = 99;
  EXPECT_EQ(named(sanitizer.clean(first)), "");
  EXPECT_EQ(named(sanitizer.clean(second)), "pool_counter_went_back");
  EXPECT_EQ(named(sanitizer.clean(third)), "");
}

TEST(Sanitizer, NoticesAClockThatGoesBackOrLeaps) {
  Sanitizer sanitizer;
  const std::vector<std::pair<double, ClockState>> steps = {
      {100.0, ClockState::kSteady}, {150.0, ClockState::kSteady}, {200.1, ClockState::kLeapt},
      {205.1, ClockState::kSteady}, {205.1, ClockState::kSteady}, {205.0, ClockState::kWentBack},
      {210.0, ClockState::kSteady}, {9000.0, ClockState::kLeapt}};
  for (const auto& [seconds, clock] : steps) {
    Observation observation = seen(seconds);
    EXPECT_STREQ(to_string(sanitizer.clean(observation).clock), to_string(clock)) << seconds;
  }
}

TEST(Sanitizer, ForgetsTheTimesOfSamplesWhenTheClockGoesBack) {
  Sanitizer sanitizer;
  Observation before = seen(1000.0), after = seen(100.0);
  EXPECT_EQ(named(sanitizer.clean(before)), "");
  EXPECT_EQ(named(sanitizer.clean(after)), "");
}

TEST(Sanitizer, LimitsTheIssuesAndDropsEachSample) {
  Sanitizer sanitizer;
  Observation observation = seen(100.0, 100);
  for (auto& replica : observation.pools[0].replicas) replica.sample->kv_used_tokens = 2000;
  const Findings& findings = sanitizer.clean(observation);
  EXPECT_EQ(findings.issues.size(), Findings::kIssuesMax);
  for (const auto& replica : observation.pools[0].replicas) EXPECT_FALSE(replica.sample);
}

// Samples made of forward pass metrics must not look like a contradiction, whatever kind of iteration came last.
TEST(Sanitizer, AcceptsSamplesMadeOfForwardPassMetrics) {
  telemetry::ForwardPassMetrics decode;
  decode.counter_id = 1;
  decode.wall_time = 0.01;
  decode.scheduled_requests.num_decode_requests = 4;
  decode.scheduled_requests.sum_decode_kv_tokens = 4000;
  telemetry::ForwardPassMetrics prefill = decode;
  prefill.wall_time = 0.05;
  prefill.scheduled_requests.num_prefill_requests = 2;
  prefill.scheduled_requests.sum_prefill_tokens = 600;
  prefill.scheduled_requests.sum_prefill_kv_tokens = 100;
  prefill.queued_requests.num_prefill_requests = 3;
  prefill.queued_requests.sum_prefill_tokens = 900;
  prefill.queued_requests.num_decode_requests = 1;
  prefill.queued_requests.sum_decode_kv_tokens = 70;
  for (const telemetry::ForwardPassMetrics& message : {prefill, decode, telemetry::ForwardPassMetrics{}}) {
    std::vector<telemetry::ForwardPassTotals> ranks(1);
    ranks[0].add(message, at_s(5));
    Observation observation;
    observation.now = at_s(6);
    PoolObservation& pool = observation.pools.emplace_back();
    pool.ready = 1;
    EngineSample sample;
    ASSERT_TRUE(telemetry::apply_forward_pass(ranks, sample));
    pool.replicas.push_back({1, ReplicaState::kReady, {}, sample});
    Sanitizer sanitizer;
    EXPECT_EQ(named(sanitizer.clean(observation)), "");
  }
}

}  // namespace
}  // namespace penstock::signals
