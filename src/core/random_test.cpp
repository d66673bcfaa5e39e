#include "core/random.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

namespace penstock::core {
namespace {

struct Moments {
  double mean = 0.0, deviation = 0.0;
};

Moments moments_of(const std::function<double()>& draw) {
  constexpr int kDraws = 200'000;
  double sum = 0.0, squares = 0.0;
  for (int i = 0; i < kDraws; ++i) {
    const double value = draw();
    sum += value;
    squares += value * value;
  }
  const double mean = sum / kDraws;
  return {mean, std::sqrt(squares / kDraws - mean * mean)};
}

// The values of the reference implementation for this state. A change would change every replay.
TEST(RandomStream, KeepsItsBytes) {
  RandomStream random{42};
  const std::uint64_t first = random.next(), second = random.next();
  RandomStream again{42};
  EXPECT_EQ(again.next(), first);
  EXPECT_EQ(again.next(), second);
  EXPECT_EQ(first, 1546998764402558742ULL);
  EXPECT_EQ(second, 6990951692964543102ULL);
  EXPECT_EQ(mix64(0), 0xe220a8397b1dcdafULL);  // SplitMix64's first word of seed 0
}

TEST(RandomStream, ForksAreIndependentOfWhatWasDrawn) {
  RandomStream random{5};
  const std::uint64_t before = random.fork("arrivals").next();
  (void)random.next();
  EXPECT_EQ(random.fork("arrivals").next(), before);
  EXPECT_NE(random.fork("lengths").next(), before);
  EXPECT_NE(random.fork(std::uint64_t{0}).next(), random.fork(std::uint64_t{1}).next());
}

TEST(RandomStream, DistributionsHaveTheirMoments) {
  RandomStream random{9};
  const auto expect = [](Moments seen, double mean, double deviation) {
    EXPECT_NEAR(seen.mean, mean, 0.02 * deviation + 1e-9);
    EXPECT_NEAR(seen.deviation, deviation, 0.03 * deviation);
  };
  expect(moments_of([&] { return random.uniform(2.0, 6.0); }), 4.0, 4.0 / std::sqrt(12.0));
  expect(moments_of([&] { return random.exponential(3.0); }), 3.0, 3.0);
  expect(moments_of([&] { return random.normal(); }), 0.0, 1.0);
  expect(moments_of([&] { return random.gamma(0.25, 4.0); }), 1.0, 2.0);  // the gaps of a CV of 2
  expect(moments_of([&] { return random.gamma(9.0, 0.5); }), 4.5, 1.5);
  const double sigma = 0.5, factor = std::exp(sigma * sigma / 2);
  expect(moments_of([&] { return random.log_normal(10.0, sigma); }), 10.0 * factor,
         10.0 * factor * std::sqrt(std::exp(sigma * sigma) - 1.0));
}

TEST(RandomStream, BelowReachesEveryOutcomeEvenly) {
  RandomStream random{3};
  std::array<int, 7> seen{};
  for (int i = 0; i < 70'000; ++i) ++seen[random.below(7)];
  for (const int times : seen) EXPECT_NEAR(times, 10'000, 400);
}

}  // namespace
}  // namespace penstock::core
