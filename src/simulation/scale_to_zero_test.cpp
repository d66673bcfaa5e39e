// A fleet that may have no replica: idle time costs nothing, and requests wait for the first replica.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "planner/penstock/penstock_planner.h"
#include "simulation/trials.h"
#include "simulation/world_testing.h"

namespace penstock::simulation {
namespace {

using namespace std::chrono_literals;
using testing::at_s;

constexpr double kPause = 300.0, kNext = 3600.0;

// Requests of five minutes, nearly an hour of pause, and two more requests.
workload::Workload with_pause() {
  std::vector<double> seconds;
  for (double second = 1.0; second < kPause; second += 2.0) seconds.push_back(second);
  seconds.insert(seconds.end(), {kNext, kNext + 1.0});
  return testing::requests_at(seconds, 200, 50);
}

RunOptions from_zero(const RunOptions& given, core::Duration cold_start_queue_time = 10min) {
  RunOptions made = given;
  made.router = routing::Strategy::kLive;
  dispatch::DispatchOptions dispatch;
  dispatch.interactive.cold_start_queue_time = cold_start_queue_time;
  made.dispatch = dispatch;
  for (PoolSpec& pool : made.pools) {
    pool.min_replicas = 0;
    pool.start_up = 60s;
  }
  made.check_each_event = true;
  return made;
}

std::unique_ptr<decision::Policy> planner_of(const RunOptions& run_options) {
  planner::PlannerOptions options;
  options.scale_to_zero_after = 5min;
  return planner::make_penstock_planner(make_trials(run_options), {run_options.slo, run_options.slo_goal, {}}, options);
}

TEST(ScaleToZero, APauseCostsNothingAndTheNextRequestWaitsForAReplica) {
  const RunOptions options = from_zero(testing::options(testing::pool(1)));
  const auto policy = planner_of(options);
  const decision::RunResult result = testing::run_ok(with_pause(), *policy, options);
  EXPECT_EQ(result.failed, 0U);
  EXPECT_EQ(result.completed, with_pause().requests.size());
  // One replica for five minutes, the idle time and guardrails, and for the last two requests.
  EXPECT_LT(result.gpu_hours, 0.35);
  EXPECT_GT(result.ttft_ms.max, 60'000.0);
  EXPECT_LT(result.ttft_ms.max, 70'000.0);  // The start-up time and a tick.
  EXPECT_LT(result.ttft_ms.p95, 1000.0);
}

TEST(ScaleToZero, WithoutTheLongerWaitTheNextRequestFails) {
  const RunOptions options = from_zero(testing::options(testing::pool(1)), 0s);
  const auto policy = planner_of(options);
  const decision::RunResult result = testing::run_ok(with_pause(), *policy, options);
  EXPECT_EQ(result.failed, 2U);
}

TEST(ScaleToZero, PrefillAndDecodePoolsGoAndComeTogether) {
  const RunOptions options = from_zero(testing::disaggregated(1, 1));
  const auto policy = planner_of(options);
  const decision::RunResult result = testing::run_ok(with_pause(), *policy, options);
  EXPECT_EQ(result.failed, 0U);
  EXPECT_LT(result.gpu_hours, 0.7);
}

TEST(ScaleToZero, AFleetMayBeginWithoutReplicas) {
  RunOptions options = from_zero(testing::options(testing::pool(0)));
  const auto policy = planner_of(options);
  const decision::RunResult result = testing::run_ok(with_pause(), *policy, options);
  EXPECT_EQ(result.failed, 0U);
  EXPECT_GT(result.ttft_ms.max, 60'000.0);
}

TEST(ScaleToZero, AReplicaAsleepTakesTheNextRequestAfterItsWakeTime) {
  RunOptions options = from_zero(testing::options(testing::pool(1)));
  options.pools[0].wake_time = 5s;
  options.pools[0].min_asleep = 1;
  const auto policy = planner_of(options);
  const decision::RunResult result = testing::run_ok(with_pause(), *policy, options);
  EXPECT_EQ(result.failed, 0U);
  EXPECT_LT(result.ttft_ms.max, 15'000.0);
}

}  // namespace
}  // namespace penstock::simulation
