#include "simulation/trials.h"

#include <gtest/gtest.h>

#include <array>

#include "planner/penstock_planner.h"
#include "simulation/world_testing.h"

namespace penstock::simulation {
namespace {

using signals::RecentRequest;
using testing::at_s;
using testing::options;
using testing::pool;

std::vector<RecentRequest> evenly(std::uint32_t count, double rate_per_s) {
  std::vector<RecentRequest> requests;
  for (std::uint32_t i = 0; i < count; ++i)
    requests.push_back({at_s(100.0 + i / rate_per_s), 500, 50, 50.0F, 10.0F, {}});
  return requests;
}

RunOptions tight() {
  RunOptions run_options = options(pool(1));
  run_options.slo = {std::chrono::milliseconds{300}, std::chrono::milliseconds{14}};
  return run_options;
}

TEST(Trials, LargerFleetsKeepMore) {
  const auto trials = make_trials(tight());
  const auto requests = evenly(400, 60.0);
  trials->load({requests, 1.0});
  double before = 0.0;
  for (const std::uint32_t replicas : {1U, 2U, 4U, 8U}) {
    const auto outcome = trials->attempt(std::array{replicas});
    EXPECT_EQ(outcome.requests, 400U);
    EXPECT_GE(outcome.slo_attainment, before);
    EXPECT_LE(outcome.slo_attainment, std::min(outcome.ttft_attainment, outcome.itl_attainment));
    before = outcome.slo_attainment;
  }
  EXPECT_GT(before, 0.99);
}

TEST(Trials, AHigherRateNeedsALargerFleet) {
  const auto trials = make_trials(tight());
  const auto requests = evenly(400, 30.0);
  trials->load({requests, 1.0});
  const double plain = trials->attempt(std::array{2U}).slo_attainment;
  trials->load({requests, 8.0});
  const auto more = trials->attempt(std::array{2U});
  EXPECT_GT(more.requests, 3000U);
  EXPECT_LT(more.slo_attainment, plain - 0.1);
}

TEST(Trials, DrawLengthsThatNobodyKnowsYet) {
  const auto trials = make_trials(tight());
  auto requests = evenly(300, 10.0);
  for (std::size_t i = 100; i < requests.size(); ++i) requests[i].output_tokens = 0;
  trials->load({requests, 1.0});
  EXPECT_GT(trials->attempt(std::array{4U}).slo_attainment, 0.9);
  for (RecentRequest& request : requests) request.output_tokens = 0;
  trials->load({requests, 1.0});
  EXPECT_EQ(trials->attempt(std::array{4U}).requests, 300U);
}

TEST(Trials, RepeatThemselves) {
  const auto first = make_trials(tight()), second = make_trials(tight());
  const auto requests = evenly(300, 45.0);
  for (const auto& trials : {first.get(), second.get()}) trials->load({requests, 1.7});
  EXPECT_EQ(first->attempt(std::array{2U}).slo_attainment, second->attempt(std::array{2U}).slo_attainment);
}

// Quiet, twelve times as much, quiet, nothing, quiet: with faults on top.
workload::Workload crowd() {
  workload::Workload made;
  made.block_tokens = 16;
  const std::pair<double, double> parts[] = {
      {300, 10}, {300, 50}, {600, 8}, {300, 0}, {300, 10}};  // seconds, requests/s
  double start = 0.0;
  std::uint64_t seed = 1;
  for (const auto& [seconds, rate] : parts) {
    if (rate > 0.0)
      for (auto request : testing::random_workload(static_cast<std::uint32_t>(seconds * rate), rate, ++seed).requests) {
        if (core::to_seconds(request.arrival) >= seconds) break;
        request.arrival += core::from_seconds(start);
        request.first_block = request.block_count = 0;
        made.requests.push_back(request);
      }
    start += seconds;
  }
  return made;
}

signals::RunResult planned(const RunOptions& run_options) {
  planner::PlannerOptions planner_options;
  planner_options.requests_max = 1000;
  const auto planner = planner::make_penstock_planner(make_trials(run_options), run_options.slo, planner_options);
  return *run(crowd(), *planner, run_options);
}

TEST(PlannerInTheWorld, FollowsTheCrowdAndLosesNoRequest) {
  const auto result = planned(tight());
  EXPECT_EQ(result.failed, 0U);
  EXPECT_GE(result.peak_replicas, 3U);
  EXPECT_GT(result.slo_attainment, 0.85);
  EXPECT_LE(result.direction_changes, 4U);
  EXPECT_LT(result.mean_replicas, 0.7 * result.peak_replicas);
}

TEST(PlannerInTheWorld, LosesNoRequestWhenTelemetryFails) {
  RunOptions run_options = tight();
  run_options.faults.telemetry_loss = 0.2;
  run_options.faults.telemetry_lie = 0.05;
  run_options.faults.start_up_spread = 1.0;
  const auto result = planned(run_options);
  EXPECT_EQ(result.failed, 0U);
  EXPECT_GT(result.slo_attainment, 0.8);
}

TEST(PlannerInTheWorld, DecidesTheSameTwice) {
  const auto first = planned(tight()), second = planned(tight());
  ASSERT_EQ(first.decisions.size(), second.decisions.size());
  for (std::size_t i = 0; i < first.decisions.size(); ++i)
    EXPECT_EQ(first.decisions[i].sentence, second.decisions[i].sentence);
}

}  // namespace
}  // namespace penstock::simulation
