// The next minutes in place of the latest slice, where requests take long.
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <vector>

#include "planner/penstock/traffic_memory.h"
#include "planner/penstock/trials_testing.h"

namespace penstock::planner {
namespace {

using testing::advance_at;
using testing::at_s;
using testing::kMeanOutput;
using testing::long_tailed;
using testing::observed_at;
using testing::RecordedTrials;

const MemoryOptions kAhead{.slice_least = std::chrono::seconds{30},
                           .slice_most = std::chrono::seconds{60},
                           .ahead = std::chrono::seconds{100},
                           .after_ahead = std::chrono::seconds{20},
                           .tick_requests = 1'000'000};

struct Memory {
  std::shared_ptr<RecordedTrials> trials = std::make_shared<RecordedTrials>([](double, core::Instant) { return 1.0; });
  TrafficMemory memory{trials, kAhead};
};

TEST(NextMinutes, TheyRepeatTheLatestTrafficWithWhatRuns) {
  const auto requests = long_tailed(300, 10, 300);
  Memory of;
  advance_at({175.0, 260.0, 300.0}, requests, of.memory);
  const auto outcome = of.memory.outcome_at({2}, 1.5);
  ASSERT_TRUE(outcome.has_value());
  const RecordedTrials::Attempt& next = of.trials->attempts.front();
  EXPECT_NEAR(next.judged_from_s, 300.0, 1e-6);
  EXPECT_NEAR(next.judged_until_s, 400.0, 1e-6);
  EXPECT_NEAR(next.first_s, 300.0, 0.1);  // No warm-up: what runs is known.
  EXPECT_NEAR(next.last_s, 420.0, 0.1);
  EXPECT_NEAR(static_cast<double>(next.running), 88.0, 20.0);
  EXPECT_EQ(next.requests, 1200U);
  EXPECT_NEAR(static_cast<double>(next.output_tokens), 1200 * kMeanOutput, 120 * kMeanOutput);
  EXPECT_EQ(next.rate_factor, 1.5);
  EXPECT_EQ(outcome->all.requests, 1000 + 2600);
}

TEST(NextMinutes, ShortRequestsHaveNone) {
  std::vector<signals::RecentRequest> requests;
  testing::add_requests(requests, 0.0, 90.0, 10.0);
  Memory of;
  advance_at({30.0, 60.0, 90.0}, requests, of.memory);
  ASSERT_TRUE(of.memory.outcome({2}).has_value());
  for (const RecordedTrials::Attempt& attempt : of.trials->attempts) EXPECT_LT(attempt.judged_from_s, 90.0);
}

TEST(NextMinutes, WhatRunsIsNotJudged) {
  const auto requests = long_tailed(300, 10, 300);
  Memory of;
  advance_at({175.0, 260.0, 300.0}, requests, of.memory);
  ASSERT_TRUE(of.memory.outcome({2}).has_value());
  EXPECT_GT(of.trials->attempts.front().judged_from_s, 300.0);
}

// Fleets that are compared in one search have the same next minutes, however many ticks it takes.
TEST(NextMinutes, ASearchOverSeveralTicksTriesTheSame) {
  const auto requests = long_tailed(400, 10, 400);
  Memory of;
  advance_at({175.0, 260.0, 300.0}, requests, of.memory);
  ASSERT_TRUE(of.memory.outcome({2}).has_value());
  of.memory.begin_tick(observed_at(320.0, requests));
  ASSERT_TRUE(of.memory.outcome({1}).has_value());
  std::vector<const RecordedTrials::Attempt*> next;
  for (const RecordedTrials::Attempt& attempt : of.trials->attempts)
    if (attempt.judged_from_s > 299.0) next.push_back(&attempt);
  ASSERT_EQ(next.size(), 2U);
  EXPECT_EQ(next[0]->judged_from_s, next[1]->judged_from_s);
  EXPECT_EQ(next[0]->requests, next[1]->requests);
  EXPECT_EQ(next[0]->last_s, next[1]->last_s);
}

TEST(NextMinutes, OnlyTheLatestSlicesCountBesideThem) {
  const auto requests = long_tailed(600, 10, 600);
  Memory of;
  advance_at({120.0, 240.0, 360.0, 480.0, 560.0, 600.0}, requests, of.memory);
  of.memory.look_back(std::chrono::minutes{5}, 8000);
  EXPECT_EQ(of.memory.requests(), 1200U);  // Since 480 s: 40 s would contain 400 only.
}

// After a step from 10 to 40 requests/s, the traffic before it says nothing of the next minutes.
TEST(NextMinutes, AStepIsRepeatedWithoutTheTrafficBeforeIt) {
  auto requests = long_tailed(260, 10, 300);
  for (signals::RecentRequest request : long_tailed(40, 40, 40)) {
    request.arrival += std::chrono::seconds{260};
    requests.push_back(request);
  }
  Memory of;
  advance_at({175.0, 260.0, 300.0}, requests, of.memory);
  of.memory.restart(at_s(260.0));
  advance_at({300.0}, requests, of.memory);
  ASSERT_TRUE(of.memory.outcome({2}).has_value());
  EXPECT_NEAR(static_cast<double>(of.trials->attempts.back().requests), 120 * 40, 60.0);
}

// A request of 10 blocks every second. Those of the repeated 100 s are computed again, so that caches begin without
// them.
TEST(NextMinutes, RepeatedPromptsAreNotCachedByTheirFirstArrival) {
  std::vector<std::uint32_t> blocks(10);
  auto requests = long_tailed(300, 1, 300);
  for (signals::RecentRequest& request : requests) request.block_ids = blocks;
  Memory of;
  advance_at({175.0, 260.0, 300.0}, requests, of.memory);
  ASSERT_TRUE(of.memory.outcome({2}).has_value());
  const RecordedTrials::Attempt& next = of.trials->attempts.front();
  EXPECT_EQ(next.earlier, 200U);
  EXPECT_GT(next.running, 2U);
  EXPECT_EQ(next.running_blocks, 0U);  // All of them arrived in these 100 s.
}

}  // namespace
}  // namespace penstock::planner
