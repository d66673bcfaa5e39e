// Closed loops: requests that arrive after the end of others. Every step takes 10 ms and 10 µs per prompt token.
#include <gtest/gtest.h>

#include "planner/policy.h"
#include "simulation/world_testing.h"

namespace penstock::simulation {
namespace {

workload::Request request(double arrival_s, std::uint32_t input, std::uint32_t output) {
  workload::Request made;
  made.arrival = testing::at_s(arrival_s);
  made.input_tokens = input;
  made.output_tokens = output;
  return made;
}
decision::RunResult run_static(const workload::Workload& workload, RunOptions options) {
  auto policy = planner::make_policy("static", {});
  auto result = run(workload, **policy, options);
  if (!result) ADD_FAILURE() << result.error().message();
  return *result;
}

TEST(FollowUps, ATurnArrivesAfterTheEndOfTheTurnBeforeItAndItsThinkTime) {
  workload::Workload workload;
  // The first turn takes 20 ms for its prompt and 9 steps: it ends at 1.11 s.
  workload.requests = {request(1.0, 1000, 10), request(1.5, 1000, 10)};
  workload.waits = {{1, 0, std::chrono::seconds{5}}};
  const decision::RunResult result = run_static(workload, testing::options(testing::pool(1)));
  EXPECT_EQ(result.completed, 2U);
  // Arrives at 6.11 s and ends at 6.22 s.
  EXPECT_NEAR(result.duration_s, 6.22, 1e-6);
  EXPECT_NEAR(result.ttft_ms.max, 20.0, 1e-3);
}
TEST(FollowUps, WithSeveralWaitsTheLastOneCounts) {
  workload::Workload workload;
  workload.requests = {request(0.0, 1000, 10), request(2.0, 1000, 10), request(2.0, 1000, 10)};
  workload.waits = {{2, 0, std::chrono::seconds{3}}, {2, 1, std::chrono::milliseconds{500}}};
  // Request 0 ends at 0.11 s, request 1 at 2.11 s: 3.11 s counts, not 2.61 s.
  EXPECT_NEAR(run_static(workload, testing::options(testing::pool(1))).duration_s, 3.22, 1e-6);
}
TEST(FollowUps, SlowAnswersDelayTheNextTurnsInsteadOfQueueingThem) {
  workload::Workload workload;
  for (std::uint32_t i = 0; i < 50; ++i) {
    workload.requests.push_back(request(0.01 * i, 1000, 10));
    if (i > 0) workload.waits.push_back({i, i - 1, core::Duration{}});
  }
  const decision::RunResult result = run_static(workload, testing::options(testing::pool(1)));
  EXPECT_EQ(result.completed, 50U);
  EXPECT_NEAR(result.ttft_ms.max, 20.0, 1e-3);  // Nothing ever queues.
  EXPECT_NEAR(result.duration_s, 50 * 0.11, 1e-6);
}
TEST(FollowUps, ATurnFollowsAFailedOne) {
  workload::Workload workload;
  workload.requests = {request(0.0, 1'000'000, 10), request(0.0, 1000, 10)};  // The first one fits into no engine.
  workload.waits = {{1, 0, std::chrono::seconds{1}}};
  const decision::RunResult result = run_static(workload, testing::options(testing::pool(1)));
  EXPECT_EQ(result.completed, 1U);
  EXPECT_NEAR(result.duration_s, 1.11, 1e-6);
}
TEST(FollowUps, EqualSeedsGiveEqualRuns) {
  workload::Workload workload = testing::random_workload(200, 20.0);
  for (std::uint32_t i = 10; i < 200; ++i) workload.waits.push_back({i, i - 10, std::chrono::milliseconds{100}});
  const decision::RunResult first = run_static(workload, testing::options(testing::pool(1)));
  const decision::RunResult second = run_static(workload, testing::options(testing::pool(1)));
  EXPECT_EQ(first.completed, 200U);
  EXPECT_EQ(first.duration_s, second.duration_s);
  EXPECT_EQ(first.ttft_ms.p99, second.ttft_ms.p99);
}

}  // namespace
}  // namespace penstock::simulation
