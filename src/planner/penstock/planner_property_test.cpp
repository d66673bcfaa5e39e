// Penstock's planner with false telemetry: implausible figures do not move a target.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>

#include "core/random.h"
#include "planner/penstock/course_testing.h"

namespace penstock::planner {
namespace {

using core::RandomStream;
using testing::at_s;
using testing::Course;
using testing::quick;

constexpr std::uint64_t kSeeds = 12;

double no_number(RandomStream& random) {
  constexpr std::array kBad{std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(),
                            -std::numeric_limits<double>::infinity(), -1.0, -1e300};
  return kBad[random.below(kBad.size())];
}

void spoil_latencies(RandomStream& random, signals::LatencyWindow& window) {
  window.count = 1 + random.below(1000);
  for (double* figure : {&window.mean_ms, &window.p50_ms, &window.p90_ms, &window.p95_ms, &window.p99_ms})
    *figure = random.below(2) == 0 ? 1e9 : no_number(random);
  window.p95_ms = no_number(random);
}

// A sample that is at odds with itself, or with time.
void spoil(RandomStream& random, core::Instant now, signals::EngineSample& sample) {
  switch (random.below(7)) {
    case 0: sample.kv_used_tokens = sample.kv_capacity_tokens.value_or(0) + 1 + random.below(1'000'000); break;
    case 1: sample.sampled_at = now + core::from_seconds(1.0 + static_cast<double>(random.below(100'000))); break;
    case 2: sample.oldest_queued_age = -std::chrono::hours{1}; break;
    case 3: sample.batch_merge_efficiency = std::numeric_limits<double>::quiet_NaN(); break;
    case 4:
      sample.queued_requests = 0;
      sample.oldest_queued_age = std::chrono::hours{1};
      sample.queued_prefill_tokens = 1'000'000'000;
      break;
    case 5:
      sample.running_requests = 1000;
      sample.kv_used_tokens = 0;
      break;
    default: sample.sampled_at = core::kStart - std::chrono::seconds{1}; break;
  }
}

void spoil(RandomStream& random, signals::Observation& seen) {
  for (signals::PoolObservation& pool : seen.pools) {
    if (random.below(2) == 0) spoil_latencies(random, pool.last_minute.ttft);
    if (random.below(2) == 0) spoil_latencies(random, pool.last_minute.itl);
    for (signals::ReplicaObservation& replica : pool.replicas)
      if (replica.sample && random.below(3) == 0) spoil(random, seen.now, *replica.sample);
    if (random.below(8) == 0) pool.last_minute.length = -pool.last_minute.length;
    if (random.below(8) == 0) pool.arrivals_total = pool.input_tokens_total = 0;
  }
}

class PlannerUnderLies : public ::testing::TestWithParam<std::uint64_t> {};

TEST_P(PlannerUnderLies, FiguresThatAreNotFiniteMoveNoTarget) {
  for (const bool two_pools : {false, true}) {
    Course run{quick(), two_pools ? std::vector<double>{2.0, 4.0} : std::vector<double>{2.0}};
    RandomStream random{GetParam()};
    (void)run.at_rate(16.0, 900);
    run.changes.clear();
    const auto settled = run.fleet;
    run.change = [&](signals::Observation& seen) { spoil(random, seen); };
    (void)run.at_rate(16.0, 2700);
    EXPECT_TRUE(run.changes.empty());
    EXPECT_EQ(run.fleet, settled);
  }
}

TEST_P(PlannerUnderLies, LatenciesThatAreNotFiniteMoveNoTarget) {
  Course run;
  RandomStream random{GetParam()};
  (void)run.at_rate(16.0, 900);
  run.changes.clear();
  run.ttft_ms = [&](const Course&) { return random.below(2) == 0 ? 100.0F : static_cast<float>(no_number(random)); };
  run.change = [](signals::Observation& seen) { seen.pools[0].last_minute.ttft = {}; };
  (void)run.at_rate(16.0, 2700);
  EXPECT_TRUE(run.changes.empty());
}

TEST_P(PlannerUnderLies, NothingShrinksOnSamplesThatContradictThemselves) {
  Course run;
  RandomStream random{GetParam()};
  (void)run.at_rate(16.0, 900);
  run.change = [&](signals::Observation& seen) {
    auto& replicas = seen.pools[0].replicas;
    spoil(random, seen.now, *replicas[random.below(replicas.size())].sample);
  };
  EXPECT_EQ(run.at_rate(4.0, 2700).pools[0].limited_by, Limit::kStaleTelemetry);
  EXPECT_EQ(run.fleet[0], 8U);
  run.change = nullptr;
  EXPECT_EQ(run.at_rate(4.0, 3600).pools[0].target, 2U);
}

// The clock jumps, by up to a day, and sometimes back at once; arrivals bear the times of their clocks.
TEST_P(PlannerUnderLies, JumpsOfTheClockMoveNoTarget) {
  Course run;
  RandomStream random{GetParam()};
  run.now_s = 200'000.0;
  (void)run.at_rate(16.0, run.now_s + 900.0);
  run.changes.clear();
  for (int jump = 0; jump < 12; ++jump) {
    const double size_s = 60.0 + static_cast<double>(random.below(86'400 / 12));
    run.now_s += random.below(2) == 0 ? size_s : -size_s;
    (void)run.at_rate(16.0, run.now_s + 5.0 * static_cast<double>(1 + random.below(100)));
    EXPECT_TRUE(run.changes.empty()) << "after jump " << jump << " to " << run.now_s << ": "
                                     << run.changes.back().second;
    run.changes.clear();
  }
}

TEST(PlannerAfterAJump, PlansAgainAtOnce) {
  for (const double jump_s : {-50'000.0, 50'000.0}) {
    Course run;
    run.now_s = 200'000.0;
    (void)run.at_rate(16.0, run.now_s + 900.0);
    run.now_s += jump_s;
    EXPECT_EQ(run.at_rate(16.0, run.now_s + 5.0).pools[0].limited_by, Limit::kNone);
    EXPECT_EQ(run.at_rate(24.0, run.now_s + 200.0).pools[0].target, 12U);
    const PoolDecision& last = run.at_rate(4.0, run.now_s + 1800.0).pools[0];
    EXPECT_EQ(last.target, 2U) << jump_s << to_string(last.limited_by) << sentence(last);
  }
}

TEST(PlannerAfterAJump, HoldsDuringTheJump) {
  Course run;
  EXPECT_LT(run.at_rate(100.0, 10.0).pools[0].target, 50U);  // on its way there
  const auto before = run.fleet[0];
  const int loads = run.trials->loads;
  run.now_s += 50'000.0;
  run.change = [](signals::Observation& seen) { seen.pools[0].unrouted_requests = 100; };
  EXPECT_DECISION(run.at_rate(100.0, run.now_s + 5.0).pools[0], before, kSloAtRisk, kClockJump);
  EXPECT_EQ(run.trials->loads, loads);
  // One more serves the requests that wait.
  EXPECT_EQ(run.at_rate(100.0, run.now_s + 300.0).pools[0].target, 51U);
}

INSTANTIATE_TEST_SUITE_P(Seeds, PlannerUnderLies, ::testing::Range<std::uint64_t>(1, kSeeds + 1));

}  // namespace
}  // namespace penstock::planner
