#include "load/arrivals.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace penstock::load {
namespace {

using namespace std::chrono_literals;

RateProfile steady(double rate) {
  RateProfile profile;
  profile.curve.low = profile.curve.high = rate;
  return profile;
}

std::vector<double> times_s(const RateProfile& profile, ArrivalKind kind, core::Duration duration) {
  Arrivals arrivals{profile, kind, duration, core::RandomStream{3}};
  std::vector<double> times;
  while (const auto at = arrivals.next()) times.push_back(core::to_seconds(*at));
  return times;
}

double gap_cv(const std::vector<double>& times) {
  double sum = 0.0, squares = 0.0;
  for (std::size_t i = 1; i < times.size(); ++i) {
    const double gap = times[i] - times[i - 1];
    sum += gap;
    squares += gap * gap;
  }
  const auto n = static_cast<double>(times.size() - 1);
  return std::sqrt(squares / n - (sum / n) * (sum / n)) / (sum / n);
}

TEST(Arrivals, OfAUniformRateAreEvenlySpacedFromTheStart) {
  const auto times = times_s(steady(4.0), ArrivalKind::kUniform, 10s);
  ASSERT_EQ(times.size(), 40U);
  for (std::size_t i = 0; i < times.size(); ++i) EXPECT_NEAR(times[i], 0.25 * static_cast<double>(i), 1e-6);
}

TEST(Arrivals, KeepTheRateAndVaryAsTheirKindDoes) {
  const auto poisson = times_s(steady(50.0), ArrivalKind::kPoisson, 400s);
  EXPECT_NEAR(static_cast<double>(poisson.size()), 20'000.0, 500.0);
  EXPECT_NEAR(gap_cv(poisson), 1.0, 0.05);
  const auto burst = times_s(steady(50.0), ArrivalKind::kBurst, 400s);
  EXPECT_NEAR(static_cast<double>(burst.size()), 20'000.0, 1'500.0);
  EXPECT_NEAR(gap_cv(burst), 3.0, 0.3);
  EXPECT_TRUE(std::is_sorted(burst.begin(), burst.end()));
}

TEST(Arrivals, OfADayAreFewAtNightAndManyAtNoon) {
  RateProfile day;
  day.curve = {workload::RateShape::kDiurnal, 1.0, 21.0, {}, 100s};
  const auto times = times_s(day, ArrivalKind::kUniform, 100s);
  EXPECT_NEAR(static_cast<double>(times.size()), 1100.0, 2.0);
  const auto within = [&](double from, double to) {
    return std::count_if(times.begin(), times.end(), [&](double t) { return t >= from && t < to; });
  };
  EXPECT_LT(within(0, 10), 25);
  EXPECT_GT(within(45, 55), 200);
}

TEST(Arrivals, BurstsComeEverySoOften) {
  RateProfile profile = steady(10.0);
  profile.bursts = {5.0, 20s, 2s};
  EXPECT_EQ(profile.at_time(1s), 10.0) << "the first burst is not at the start";
  EXPECT_EQ(profile.at_time(20s), 50.0);
  EXPECT_EQ(profile.at_time(21'999ms), 50.0);
  EXPECT_EQ(profile.at_time(22s), 10.0);
  EXPECT_EQ(profile.at_time(41s), 50.0);
  EXPECT_NEAR(static_cast<double>(times_s(profile, ArrivalKind::kUniform, 60s).size()), 600.0 + 2 * 80.0, 2.0);
}

TEST(Arrivals, OfARateOfZeroEnd) { EXPECT_TRUE(times_s(steady(0.0), ArrivalKind::kPoisson, 100s).empty()); }

}  // namespace
}  // namespace penstock::load
