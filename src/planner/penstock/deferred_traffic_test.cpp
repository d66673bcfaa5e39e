#include "planner/penstock/deferred_traffic.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace penstock::planner {
namespace {

using namespace std::chrono_literals;
using signals::RecentRequest;

RecentRequest at(core::Duration arrival, core::Duration window = {}) {
  RecentRequest request;
  request.arrival = core::kStart + arrival;
  request.input_tokens = 100;
  request.completion_window = window;
  return request;
}

signals::Observation seen(core::Duration now, const std::vector<RecentRequest>& recent, std::uint64_t arrivals) {
  signals::Observation observation;
  observation.now = core::kStart + now;
  observation.pools.resize(1);
  observation.pools[0].arrivals_total = arrivals;
  observation.pools[0].input_tokens_total = 100 * arrivals;
  observation.recent = recent;
  return observation;
}

std::ptrdiff_t between(std::span<const RecentRequest> requests, core::Duration from, core::Duration to) {
  return std::count_if(requests.begin(), requests.end(), [&](const RecentRequest& request) {
    return request.arrival > core::kStart + from && request.arrival <= core::kStart + to;
  });
}

TEST(DeferredTraffic, WithoutDeferredRequestsTheObservationIsTheSame) {
  DeferredTraffic traffic{10min};
  const std::vector<RecentRequest> recent{at(1s), at(2s)};
  const signals::Observation observation = seen(3s, recent, 2);
  EXPECT_EQ(&traffic.spread(observation), &observation);
}

TEST(DeferredTraffic, ABurstCountsAsItsMeanOverTheWindow) {
  DeferredTraffic traffic{10min};
  std::vector<RecentRequest> recent;
  for (int i = 0; i < 6'000; ++i) recent.push_back(at(i * 1ms, 10min));
  const auto first = traffic.spread(seen(1min, recent, 6'000)).recent;
  EXPECT_NEAR(static_cast<double>(first.size()), 600.0, 100.0) << "a tenth of the window has passed";
  const signals::Observation& last = traffic.spread(seen(15min, recent, 6'000));
  ASSERT_EQ(last.recent.size(), 6'000U);
  EXPECT_TRUE(std::is_sorted(last.recent.begin(), last.recent.end(),
                             [](const auto& a, const auto& b) { return a.arrival < b.arrival; }));
  for (int minute = 1; minute < 10; ++minute)
    EXPECT_NEAR(static_cast<double>(between(last.recent, minute * 1min, (minute + 1) * 1min)), 600.0, 100.0) << minute;
  EXPECT_EQ(between(last.recent, 11min, 15min), 0);
}

TEST(DeferredTraffic, OtherRequestsStayWhereTheyAre) {
  DeferredTraffic traffic{10min};
  const std::vector<RecentRequest> recent{at(1s), at(2s, 5min), at(3s), at(400s)};
  const auto spread = traffic.spread(seen(10min, recent, 4)).recent;
  ASSERT_EQ(spread.size(), 4U);
  EXPECT_EQ(spread[0].arrival, core::kStart + 1s);
  EXPECT_EQ(spread[1].arrival, core::kStart + 3s);
  EXPECT_EQ(spread[3].arrival, core::kStart + 400s);
}

TEST(DeferredTraffic, CountersCountTheSpreadArrivals) {
  DeferredTraffic traffic{2min};
  std::vector<RecentRequest> recent{at(1s, 1h)};
  std::uint64_t before = traffic.spread(seen(2s, recent, 1)).pools[0].arrivals_total;
  for (int i = 0; i < 1'000; ++i) recent.push_back(at(10s, 1h));
  std::uint64_t most = 0, sum = 0;
  for (core::Duration now = 20s; now <= 3min; now += 10s) {
    const signals::PoolObservation& pool = traffic.spread(seen(now, recent, 1'001)).pools[0];
    most = std::max(most, pool.arrivals_total - before);
    sum += pool.arrivals_total - before;
    EXPECT_EQ(pool.input_tokens_total, 100 * pool.arrivals_total);
    before = pool.arrivals_total;
  }
  EXPECT_EQ(sum, 1'001U) << "the first request was there at the first call, which counts arrivals as they are";
  EXPECT_LT(most, 130U) << "1,000 in two minutes are 83 in ten seconds";
}

TEST(DeferredTraffic, ARestartedPlannerDoesNotCountWhatWaitsAtOnce) {
  DeferredTraffic traffic{10min};
  std::vector<RecentRequest> recent{at(1s, 1h)};
  static_cast<void>(traffic.spread(seen(2s, recent, 1)));
  for (int i = 0; i < 1'000; ++i) recent.push_back(at(10s, 1h));
  const std::uint64_t before = traffic.spread(seen(20s, recent, 1'001)).pools[0].arrivals_total;
  core::StateArchive saved;
  traffic.archive(saved);
  const std::string text = saved.text();
  DeferredTraffic restarted{10min}, elsewhere{10min};
  for (DeferredTraffic* each : {&restarted, &elsewhere}) {
    core::StateArchive state{text};
    each->archive(state);
    EXPECT_FALSE(state.failed());
  }
  EXPECT_LT(restarted.spread(seen(25s, recent, 1'001)).pools[0].arrivals_total - before, 50U);
  // Counters that begin anew never fall below 0.
  EXPECT_LE(elsewhere.spread(seen(25s, recent, 30)).pools[0].arrivals_total, 30U);
}

TEST(DeferredTraffic, AClockThatGoesBackLosesNothingButOneInterval) {
  DeferredTraffic traffic{2min};
  const std::vector<RecentRequest> recent{at(1s, 1min)};
  static_cast<void>(traffic.spread(seen(100s, recent, 1)));
  static_cast<void>(traffic.spread(seen(50s, recent, 1)));
  const signals::PoolObservation& pool = traffic.spread(seen(101s, recent, 1)).pools[0];
  EXPECT_LE(pool.arrivals_total, 2U);
}

}  // namespace
}  // namespace penstock::planner
