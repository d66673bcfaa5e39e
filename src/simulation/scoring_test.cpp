// Runs whose first minutes are not scored, and the requests of bursts.
#include <gtest/gtest.h>

#include "simulation/bursts.h"
#include "simulation/run.h"
#include "simulation/world_testing.h"

namespace penstock::simulation {
namespace {

using testing::at_s;
using testing::options;
using testing::pool;
using testing::requests_at;
using testing::run_ok;
using testing::steps;

TEST(Scoring, LeavesOutEarlierArrivalsAndTheirGpuTime) {
  const workload::Workload workload = requests_at({0.0, 10.0, 20.0, 100.0, 140.0}, 16, 1);
  RunOptions run_options = options(pool(2));
  const decision::RunResult whole = run_ok(workload, run_options);
  run_options.judged_from = at_s(20.0);
  const decision::RunResult scored = run_ok(workload, run_options);
  EXPECT_EQ(whole.requests, 5U);
  EXPECT_EQ(scored.requests, 3U);
  EXPECT_EQ(scored.completed, 3U);
  EXPECT_EQ(scored.failed, 0U);
  EXPECT_EQ(scored.completed_tokens.input, 48U);
  EXPECT_NEAR(whole.duration_s - scored.duration_s, 20.0, 1e-9);
  EXPECT_NEAR(whole.gpu_hours - scored.gpu_hours, 2.0 * 20.0 / 3600.0, 1e-9);
  EXPECT_NEAR(scored.cost, scored.gpu_hours * run_options.pools[0].price_per_gpu_hour, 1e-9);
  EXPECT_NEAR(scored.mean_replicas, 2.0, 1e-6);
  EXPECT_EQ(scored.series.size(), whole.series.size());
}

TEST(Scoring, AMissBeforeItCountsNowhere) {
  // The first prompts queue behind each other; the last one finds an idle replica.
  workload::Workload workload = requests_at({0.0, 0.0, 0.0, 60.0}, 2000, 1);
  RunOptions run_options = options(pool(1));
  run_options.slo.ttft = std::chrono::milliseconds{40};
  const decision::RunResult whole = run_ok(workload, run_options);
  EXPECT_LT(whole.slo_attainment, 0.6);
  run_options.judged_from = at_s(30.0);
  const decision::RunResult scored = run_ok(workload, run_options);
  EXPECT_EQ(scored.slo_attainment, 1.0);
  EXPECT_LT(scored.ttft_ms.max, 40.0);
  EXPECT_LT(scored.e2e_ms.max, 40.0);
  std::uint64_t in_segments = 0;
  for (const decision::SegmentResult& segment : scored.segments)
    if (segment.dimension == "prompt tokens") in_segments += segment.requests;
  EXPECT_EQ(in_segments, 1U);
  ASSERT_EQ(scored.targets.size(), 1U);
  EXPECT_EQ(scored.targets[0].requests, 1U);
}

TEST(Scoring, CountsOnlyLaterChangesAndThePeakSince) {
  const workload::Workload workload = requests_at({0.0, 50.0, 100.0, 150.0, 200.0}, 16, 1);
  RunOptions run_options = options(pool(1));
  auto policy = steps({{5.0, 6}, {30.0, 1}, {120.0, 3}, {160.0, 2}});
  const decision::RunResult whole = run_ok(workload, policy, run_options);
  EXPECT_EQ(whole.scaling_actions, 4U);
  EXPECT_EQ(whole.direction_changes, 3U);
  EXPECT_EQ(whole.peak_replicas, 6U);
  run_options.judged_from = at_s(100.0);
  const decision::RunResult scored = run_ok(workload, policy, run_options);
  EXPECT_EQ(scored.scaling_actions, 2U);
  EXPECT_EQ(scored.direction_changes, 2U);
  EXPECT_EQ(scored.peak_replicas, 3U);
  EXPECT_EQ(scored.decisions.size(), 4U);
}

TEST(Scoring, TokenGapsAndTheHitRatioAreThoseOfTheScoredTime) {
  // Two equal prompts: only the second one finds blocks. The gaps of the first decode are 10 ms each.
  workload::Workload workload = requests_at({0.0, 60.0}, 160, 10);
  workload.block_ids = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
  for (workload::Request& request : workload.requests) request.block_count = 10;
  RunOptions run_options = options(pool(1));
  const double whole = run_ok(workload, run_options).prefix_hit_ratio;
  run_options.judged_from = at_s(30.0);
  const decision::RunResult scored = run_ok(workload, run_options);
  EXPECT_GT(whole, 0.0);
  EXPECT_NEAR(scored.prefix_hit_ratio, 2.0 * whole, 1e-9);
  EXPECT_NEAR(scored.itl_ms.mean, 10.0, 0.2);
}

TEST(Scoring, RefusalsAndWaitsBeforeItAreNotReported) {
  // The gateway has room for few requests of one burst, refuses others after their queue time, and is idle later.
  std::vector<double> arrivals(400, 0.0);
  arrivals.push_back(300.0);
  const workload::Workload workload = requests_at(arrivals, 2000, 20);
  RunOptions run_options = options(pool(1));
  run_options.router = routing::Strategy::kLive;
  const decision::RunResult whole = run_ok(workload, run_options);
  EXPECT_GT(whole.failed, 0U);
  EXPECT_GT(whole.waited, 0U);
  run_options.judged_from = at_s(200.0);
  const decision::RunResult scored = run_ok(workload, run_options);
  EXPECT_EQ(scored.failed, 0U);
  EXPECT_TRUE(scored.failures.empty());
  EXPECT_EQ(scored.waited, 0U);
}

TEST(Bursts, AreMinutesAboveTwiceTheMeanOfTheTenBefore) {
  std::vector<std::uint64_t> arrivals(30, 20);
  arrivals[5] = 900;  // Ten minutes before it are not known.
  arrivals[20] = 41;  // Above 2 x 20.
  arrivals[25] = 40;  // Not above 2 x 22.1.
  const std::vector<bool> bursts = burst_minutes(arrivals);
  for (std::size_t minute = 0; minute < arrivals.size(); ++minute) EXPECT_EQ(bursts[minute], minute == 20) << minute;
}

TEST(Bursts, AFewRequestsAreNone) {
  std::vector<std::uint64_t> arrivals(12, 0);
  arrivals[11] = 9;
  EXPECT_FALSE(burst_minutes(arrivals)[11]);
  arrivals[11] = 10;
  EXPECT_TRUE(burst_minutes(arrivals)[11]);
}

TEST(Bursts, TheirAttainmentIsThatOfTheirRequests) {
  // Two requests a minute meet the SLO; of thirty at once in minute 12, those behind others do not.
  std::vector<double> arrivals;
  for (int minute = 0; minute < 15; ++minute)
    for (const double second : {10.0, 40.0}) arrivals.push_back(60.0 * minute + second);
  arrivals.insert(arrivals.begin() + 24, 30, 60.0 * 12);
  const workload::Workload workload = requests_at(arrivals, 1000, 1);
  RunOptions run_options = options(pool(1));
  run_options.slo.ttft = std::chrono::milliseconds{100};
  const decision::RunResult result = run_ok(workload, run_options);
  EXPECT_EQ(result.bursts.requests, 32U);
  EXPECT_LT(result.bursts.met, 20U);
  EXPECT_GT(result.bursts.met, 2U);
  EXPECT_EQ(result.requests - result.bursts.requests, 28U);
  EXPECT_NEAR(result.slo_attainment, (28.0 + static_cast<double>(result.bursts.met)) / 60.0, 1e-9);
}

TEST(Evidence, IsKeptAboutAsOftenAsTheSeriesHasPoints) {
  std::vector<double> arrivals;
  for (int second = 0; second < 100; ++second) arrivals.push_back(second);
  RunOptions run_options = options(pool(1));
  run_options.series_points = 10;
  const decision::RunResult result = run_ok(requests_at(arrivals, 16, 1), run_options);
  EXPECT_GE(result.evidence.size(), 8U);
  EXPECT_LE(result.evidence.size(), 11U);
  for (const decision::EvidencePoint& point : result.evidence) EXPECT_EQ(point.target_by_pool, std::vector{1U});
}

}  // namespace
}  // namespace penstock::simulation
