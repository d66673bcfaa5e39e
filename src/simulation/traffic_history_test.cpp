#include "simulation/traffic_history.h"

#include <gtest/gtest.h>

#include <vector>

#include "planner/penstock/traffic_outlook.h"
#include "simulation/world_testing.h"

namespace penstock::simulation {
namespace {

using std::chrono::seconds;
using testing::at_s;
using testing::random_workload;
using testing::requests_at;

TEST(TrafficHistory, HasRateAndMeanLengthsOfEachInterval) {
  auto workload = requests_at({0, 5, 29.9, 30, 95}, 100, 10);
  workload.requests[1].input_tokens = 400;
  workload.requests[2].output_tokens = 40;
  const auto history = traffic_history(workload, seconds{30});
  ASSERT_EQ(history.size(), 3U);
  EXPECT_EQ(history[0].at, at_s(30));
  EXPECT_EQ(history[0].requests_per_s, 0.1);
  EXPECT_EQ(history[0].input_tokens, 200.0);
  EXPECT_EQ(history[0].output_tokens, 20.0);
  EXPECT_EQ(history[1].requests_per_s, 1.0 / 30.0);
  EXPECT_EQ(history[1].input_tokens, 100.0);
}

TEST(TrafficHistory, AnIntervalWithoutRequestsHasARateAndNoLengths) {
  const auto history = traffic_history(requests_at({0, 95}, 100, 10), seconds{30});
  ASSERT_EQ(history.size(), 3U);
  EXPECT_EQ(history[1].requests_per_s, 0.0);
  EXPECT_FALSE(history[1].input_tokens);
  EXPECT_FALSE(history[1].output_tokens);
}

TEST(TrafficHistory, ThePartOfAnIntervalAtTheEndIsLeftOut) {
  EXPECT_TRUE(traffic_history({}, seconds{30}).empty());
  EXPECT_TRUE(traffic_history(requests_at({29}, 100, 10), seconds{30}).empty());
  EXPECT_EQ(traffic_history(requests_at({0, 60}, 100, 10), seconds{30}).size(), 2U);
}

TEST(TrafficHistory, CountsEveryRequestOfItsTimeOnce) {
  const auto workload = random_workload(5000, 7.0);
  const auto history = traffic_history(workload, seconds{10});
  double requests = 0.0, input = 0.0;
  for (const auto& sample : history) {
    requests += 10.0 * *sample.requests_per_s;
    input += 10.0 * *sample.requests_per_s * sample.input_tokens.value_or(0.0);
  }
  double expected = 0.0, expected_input = 0.0;
  for (const auto& request : workload.requests) {
    if (request.arrival >= history.back().at) continue;
    expected += 1.0;
    expected_input += request.input_tokens;
  }
  EXPECT_NEAR(requests, expected, 1e-6);
  EXPECT_NEAR(input, expected_input, 1e-3);
}

TEST(TrafficHistory, OfALongWorkloadTheLatestPartIsKept) {
  auto workload = requests_at({0, 1}, 100, 10);
  workload.requests[1].arrival = core::kStart + 400 * std::chrono::hours{24};
  const auto history = traffic_history(workload, std::chrono::hours{1});
  EXPECT_EQ(history.size(), 28U * 24U);
  EXPECT_EQ(history.back().at, workload.requests[1].arrival);
}

TEST(TrafficHistory, WarmsAnOutlookUpBeforeTheFirstTick) {
  std::vector<double> arrivals;  // from 1 to 5 requests a second in two hours
  for (double at = 0.0; at < 7200.0; at += 1.0 / (1.0 + at / 1800.0)) arrivals.push_back(at);
  const auto workload = requests_at(arrivals, 100, 10);
  planner::TrafficOutlook outlook({}, std::chrono::minutes{20}, std::chrono::minutes{3});
  outlook.warm_up(traffic_history(workload, seconds{30}));
  EXPECT_TRUE(outlook.trusted());
  EXPECT_GT(outlook.growth(1.0 + 6600.0 / 1800.0), 1.05);
  EXPECT_NEAR(*outlook.expected().input_tokens, 100.0, 1e-6);
}

}  // namespace
}  // namespace penstock::simulation
