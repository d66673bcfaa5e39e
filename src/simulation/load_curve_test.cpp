#include "simulation/load_curve.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "simulation/world_testing.h"

namespace penstock::simulation {
namespace {

using signals::Role;
using testing::requests_at;

constexpr core::Duration kWindow = core::kMinute;  // Slices of 10 s.

TEST(TokenLoad, SpreadsAnAnswerOverTheTimeThatItTakes) {
  // Answers of 100 tokens, 100 ms each: from 5 s to 15 s, and from 62 s to 72 s.
  const TokenLoad load = token_load(requests_at({5.0, 62.0}, 300, 100), kWindow, 2, std::chrono::milliseconds{100});
  EXPECT_EQ(load.requests, (std::vector<double>{1, 1}));
  EXPECT_EQ(load.prompt, (std::vector<double>{30, 0, 0, 0, 0, 0, 30, 0, 0, 0, 0, 0}));
  const std::vector<double> output{5, 5, 0, 0, 0, 0, 8, 2, 0, 0, 0, 0};
  for (std::size_t slice = 0; slice < output.size(); ++slice) EXPECT_NEAR(load.output[slice], output[slice], 1e-6);
}

TEST(TokenLoad, AnswersLongerThanAWindowReachTheNextOnes) {
  const TokenLoad load = token_load(requests_at({30.0}, 1, 1500), kWindow, 3, std::chrono::milliseconds{100});
  const std::vector<double> output{0, 0, 0, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10};
  for (std::size_t slice = 0; slice < output.size(); ++slice) EXPECT_NEAR(load.output[slice], output[slice], 1e-6);
  EXPECT_EQ(load.requests, (std::vector<double>{1, 0, 0}));
}

// Window i has i + 1 hundred requests in its minute, evenly; a replica serves 5 a second, and refuses the others.
workload::Workload ramp(std::size_t windows, std::uint32_t input, std::uint32_t output) {
  std::vector<double> seconds;
  for (std::size_t window = 0; window < windows; ++window) {
    const double offered = 100.0 * (static_cast<double>(window) + 1.0);
    for (double i = 0.0; i < offered; ++i) seconds.push_back(60.0 * (static_cast<double>(window) + i / offered));
  }
  return requests_at(seconds, input, output);
}

double missed_of(std::size_t window, std::uint32_t replicas) {
  const double offered = 100.0 * (static_cast<double>(window) + 1.0), served = 300.0 * replicas;
  return offered <= served ? 0.0 : 1.0 - served / offered;
}

std::vector<LoadSample> samples_of(std::initializer_list<std::uint32_t> sizes, std::size_t windows) {
  std::vector<LoadSample> samples;
  for (const std::uint32_t size : sizes)
    for (std::size_t window = 0; window < windows; ++window)
      samples.push_back({window, static_cast<double>(size), missed_of(window, size)});
  return samples;
}

TEST(LoadCurve, PredictsSizesThatWereNotSimulated) {
  const TokenLoad load = token_load(ramp(20, 500, 50), kWindow, 20, std::chrono::milliseconds{5});
  const LoadCurve curve = LoadCurve::fit(load, Role::kAggregated, samples_of({2, 5}, 20));
  for (std::size_t window = 0; window < 20; ++window) {
    SCOPED_TRACE(window);
    EXPECT_NEAR(curve.missed(window, 3), missed_of(window, 3), 0.05);
    EXPECT_NEAR(curve.missed(window, 7), 0.0, 0.01);
  }
  EXPECT_EQ(curve.fixed_size(1, 32, 21'000.0 * 0.01), 7U);  // 2,000 in the last window, 300 a replica.
}

TEST(LoadCurve, MoreReplicasNeverMissMore) {
  const TokenLoad load = token_load(ramp(12, 500, 50), kWindow, 12, std::chrono::milliseconds{5});
  const MissTable table = LoadCurve::fit(load, Role::kAggregated, samples_of({1, 2, 3}, 12)).table(0, 40);
  EXPECT_EQ(table.smallest, 0U);
  EXPECT_LT(table.largest(), 12U);  // Sizes beyond those that miss least are left out.
  for (const std::vector<double>& row : table.misses) EXPECT_TRUE(std::is_sorted(row.rbegin(), row.rend()));
}

TEST(LoadCurve, FindsWhatAnOutputTokenWeighs) {
  // Odd windows have long answers and few requests. An output token takes as long as ten prompt tokens.
  std::vector<double> seconds;
  for (int i = 0; i < 2400; ++i) seconds.push_back(0.5 * i);
  workload::Workload workload = requests_at(seconds, 1000, 10);
  core::RandomStream random{3};
  std::vector<double> cost(20);
  for (workload::Request& request : workload.requests) {
    const auto window = static_cast<std::size_t>(request.arrival.time_since_epoch() / kWindow);
    request.input_tokens = static_cast<std::uint32_t>(window % 2 == 0 ? 400 + 50 * window : 100);
    request.output_tokens = static_cast<std::uint32_t>(window % 2 == 0 ? 10 : 20 + 5 * window);
    cost[window] += (request.input_tokens + 10.0 * request.output_tokens) / 60.0;
  }
  std::vector<LoadSample> samples;
  for (const double replicas : {1.0, 2.0})
    for (std::size_t window = 0; window < cost.size(); ++window)
      samples.push_back({window, replicas, std::max(0.0, 1.0 - 900.0 * replicas / cost[window])});
  const TokenLoad load = token_load(workload, kWindow, cost.size(), std::chrono::milliseconds{1});
  EXPECT_EQ(LoadCurve::fit(load, Role::kAggregated, samples).output_weight(), 10.0);
}

TEST(LoadCurve, ACorrectedWindowMovesTowardWhatWasMeasured) {
  const TokenLoad load = token_load(ramp(20, 500, 50), kWindow, 20, std::chrono::milliseconds{5});
  LoadCurve curve = LoadCurve::fit(load, Role::kAggregated, samples_of({2, 5}, 20));
  const double before = curve.missed(14, 5), others = curve.missed(13, 5);
  for (int i = 0; i < 10; ++i) curve.correct({14, 5.0, 0.2});
  EXPECT_LT(before, 0.01);
  EXPECT_NEAR(curve.missed(14, 5), 0.2, 0.02);
  EXPECT_EQ(curve.missed(13, 5), others);
  for (int i = 0; i < 40; ++i) curve.correct({14, 5.0, 0.0});
  EXPECT_NEAR(curve.missed(14, 5), 0.0, 0.02);
}

// Of a window without misses only so much is known: its load is not above the one at which misses begin.
TEST(LoadCurve, AWindowWithoutMissesKeepsItsLoad) {
  const TokenLoad load = token_load(ramp(20, 500, 50), kWindow, 20, std::chrono::milliseconds{5});
  std::vector<LoadSample> samples = samples_of({2, 5}, 20);
  for (LoadSample& sample : samples) sample.missed = std::max(sample.missed, 0.004);  // At any load.
  LoadCurve curve = LoadCurve::fit(load, Role::kAggregated, samples);
  const double before = curve.missed(14, 2);
  for (int i = 0; i < 10; ++i) curve.correct({14, 6.0, 0.0});
  EXPECT_GT(before, 0.5);
  EXPECT_EQ(curve.missed(14, 2), before);
}

TEST(LoadCurve, MissesThatNoLoadExplainsRemainAtEverySize) {
  const TokenLoad load = token_load(ramp(20, 500, 50), kWindow, 20, std::chrono::milliseconds{5});
  LoadCurve curve = LoadCurve::fit(load, Role::kAggregated, samples_of({2, 5}, 20));
  for (int i = 0; i < 20; ++i) curve.correct({2, 12.0, 0.5});
  EXPECT_NEAR(curve.missed(2, 12), 0.5, 0.05);
  EXPECT_NEAR(curve.missed(2, 24), 0.5, 0.05);
}

}  // namespace
}  // namespace penstock::simulation
