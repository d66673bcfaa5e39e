#include "planner/penstock/futures.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "core/random.h"

namespace penstock::planner {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

// Multiples after a load by minutes, each of which is also the load that plans used at its end.
template <class Load>
std::vector<double> after(core::Duration lag, int count, const Load& load) {
  Futures futures{lag};
  for (int minute = 0; minute < count; ++minute) futures.observe(load(minute), load(minute), load(minute));
  return futures.multiples();
}

double spread(const std::vector<double>& multiples) { return multiples.back() / multiples.front(); }

TEST(Futures, AreThoseOfPublicTracesBeforeAnyHistory) {
  const std::vector<double> multiples = Futures{minutes{2}}.multiples();
  ASSERT_EQ(multiples.size(), Futures::kCount);
  EXPECT_TRUE(std::is_sorted(multiples.begin(), multiples.end()));
  EXPECT_NEAR(multiples.front(), 0.59, 0.05);  // Quantile 1/32.
  EXPECT_NEAR(multiples[Futures::kCount / 2], 1.02, 0.02);
  EXPECT_NEAR(multiples.back(), 1.74, 0.05);  // Quantile 31/32.
}

TEST(Futures, SpreadWithTheLag) {
  double before = 1.0;
  for (const core::Duration lag : {core::Duration{}, core::Duration{minutes{1}}, core::Duration{minutes{2}},
                                   core::Duration{minutes{5}}, core::Duration{minutes{20}}}) {
    const double now = spread(Futures{lag}.multiples());
    EXPECT_GT(now, before);
    before = now;
  }
}

TEST(Futures, LagIsRoundedUpToMinutesAndBounded) {
  EXPECT_EQ(Futures{seconds{61}}.multiples(), Futures{minutes{2}}.multiples());
  EXPECT_EQ(Futures{core::Duration{-5}}.multiples(), Futures{core::Duration{}}.multiples());
  EXPECT_EQ(Futures{std::chrono::hours{24}}.multiples(), Futures{minutes{30}}.multiples());
}

TEST(Futures, AreOneAfterSomeHoursOfFlatLoad) {
  const auto flat = [](int) { return 500.0; };
  EXPECT_GT(spread(after(minutes{2}, 10, flat)), 1.5);  // Ten minutes prove little.
  EXPECT_LT(spread(after(minutes{2}, 180, flat)), 2.0);
  for (const double multiple : after(minutes{2}, 600, flat)) EXPECT_NEAR(multiple, 1.0, 0.021);
  for (const double multiple : after(minutes{2}, 1200, flat)) EXPECT_DOUBLE_EQ(multiple, 1.0);
}

// The load doubles in a day.
double growing(int minute) { return std::exp2(minute / 1440.0); }

TEST(Futures, ShowALoadThatGrows) {
  const std::vector<double> multiples = after(minutes{2}, 1200, growing);
  // Loads of the first and the second minute after the lag, relative to that of the request.
  EXPECT_NEAR(multiples.front(), growing(3), 1e-6);
  EXPECT_NEAR(multiples.back(), growing(4), 1e-6);
}

TEST(Futures, FollowTheLag) {
  EXPECT_NEAR(after(minutes{10}, 1200, growing).back(), growing(12), 1e-6);
  EXPECT_NEAR(after(core::Duration{}, 1200, growing).front(), growing(1), 1e-6);
}

TEST(Futures, WhatFollowedASmallLoadSaysLittleAboutALargeOne) {
  const auto load_after = [](double flat) {
    return [flat](int minute) { return minute >= 300 ? flat : minute % 10 == 0 ? 50.0 : 10.0; };
  };
  EXPECT_DOUBLE_EQ(after(minutes{2}, 420, load_after(10.0)).back(), 5.0);
  EXPECT_LT(after(minutes{2}, 420, load_after(1000.0)).back(), 2.0);
}

TEST(Futures, ShowBurstsAsLargeMultiples) {
  const std::vector<double> multiples =
      after(minutes{1}, 600, [](int minute) { return minute % 10 == 0 ? 300.0 : 100.0; });
  EXPECT_DOUBLE_EQ(multiples.back(), 3.0);
  EXPECT_DOUBLE_EQ(multiples[Futures::kCount / 2], 1.0);
  EXPECT_NEAR(multiples.front(), 1.0 / 3.0, 1e-9);
}

// Pulses of two minutes every five minutes. Plans use the traffic of a minute.
TEST(Futures, AreThoseOfMomentsAtASimilarLevel) {
  const auto load = [](int minute) { return minute % 5 < 2 ? 800.0 : 100.0; };
  Futures futures{minutes{1}};
  for (int minute = 0; minute < 300; ++minute) futures.observe(load(minute), load(minute), 800.0);
  ASSERT_EQ(load(299), 100.0);
  EXPECT_GT(futures.multiples().back(), 7.0);  // Two of three pauses end within the lag.
  for (int minute = 300; minute < 302; ++minute) futures.observe(load(minute), load(minute), 800.0);
  EXPECT_LT(futures.multiples().back(), 1.8);  // No load follows that is larger than a pulse.
}

TEST(Futures, RatiosAreBounded) {
  const std::vector<double> multiples = after(core::Duration{}, 600, [](int minute) { return minute % 2 ? 1e9 : 1.0; });
  EXPECT_DOUBLE_EQ(multiples.back(), 8.0);
}

TEST(Futures, MinutesWithoutLoadHaveNoFutures) {
  const std::vector<double> before = Futures{minutes{1}}.multiples();
  EXPECT_EQ(after(minutes{1}, 600, [](int) { return 0.0; }), before);
}

TEST(Futures, OldMinutesAreForgotten) {
  Futures futures{minutes{1}};
  for (int minute = 0; minute < 600; ++minute) {
    const double load = minute % 5 ? 100.0 : 400.0;
    futures.observe(load, load, load);
  }
  EXPECT_GT(futures.multiples().back(), 3.0);
  for (int minute = 0; minute < 3000; ++minute) futures.observe(100.0, 100.0, 100.0);
  EXPECT_DOUBLE_EQ(futures.multiples().back(), 1.0);
}

TEST(Futures, AreFiniteAndAscendForAnyLoad) {
  core::RandomStream random{16};
  for (int sequence = 0; sequence < 20; ++sequence) {
    Futures futures{core::from_seconds(random.uniform(0.0, 900.0))};
    const double zeros = random.uniform(0.0, 0.5), sigma = random.uniform(0.0, 3.0);
    for (int minute = 0; minute < 200; ++minute) {
      const double load = random.uniform() < zeros ? 0.0 : random.log_normal(1000.0, sigma);
      const double base = random.uniform() < 0.01 ? std::numeric_limits<double>::quiet_NaN() : load;
      const double usual = random.uniform() < 0.01 ? std::numeric_limits<double>::quiet_NaN() : 2.0 * load;
      futures.observe(random.uniform() < 0.01 ? std::numeric_limits<double>::quiet_NaN() : load, base, usual);
      const std::vector<double>& multiples = futures.multiples();
      ASSERT_EQ(multiples.size(), Futures::kCount);
      ASSERT_TRUE(std::is_sorted(multiples.begin(), multiples.end()));
      ASSERT_GE(multiples.front(), 0.0);
      ASSERT_LE(multiples.back(), 8.0);
      for (const double multiple : multiples) ASSERT_TRUE(std::isfinite(multiple));
    }
  }
}

TEST(Futures, ContinueFromTheirArchive) {
  core::RandomStream random{7};
  Futures futures{minutes{2}};
  const auto observe = [&](Futures& all, double load) { all.observe(load, load, 1500.0); };
  for (int minute = 0; minute < 100; ++minute) observe(futures, random.log_normal(1000.0, 0.3));
  core::StateArchive saved;
  futures.archive(saved);
  Futures restored{minutes{2}};
  core::StateArchive read{saved.text()};
  restored.archive(read);
  ASSERT_TRUE(read.finish());
  EXPECT_EQ(restored.multiples(), futures.multiples());
  for (int minute = 0; minute < 100; ++minute) {
    const double load = random.log_normal(1000.0, 0.3);
    observe(futures, load);
    observe(restored, load);
    ASSERT_EQ(restored.multiples(), futures.multiples());
  }
}

TEST(Futures, AnotherNumberOfMultiplesIsRefused) {
  Futures futures{minutes{2}};
  core::StateArchive read{"futures 0 0 0 1 1.0"};
  futures.archive(read);
  EXPECT_FALSE(read.finish());
}

}  // namespace
}  // namespace penstock::planner
