#include "planner/penstock/traffic_step.h"

#include <gtest/gtest.h>

#include <vector>

#include "core/random.h"

namespace penstock::planner {
namespace {

core::Instant at_s(double seconds) { return core::Instant{core::from_seconds(seconds)}; }

class Traffic {
 public:
  explicit Traffic(std::uint64_t seed = 1) : random_(seed) {}
  // Poisson arrivals.
  Traffic& until(double end_s, double rate) {
    for (double at = end_s_ + random_.exponential(1.0 / rate); at < end_s; at += random_.exponential(1.0 / rate))
      requests_.emplace_back().arrival = at_s(at);
    end_s_ = end_s;
    return *this;
  }
  [[nodiscard]] std::optional<core::Instant> step() const { return traffic_step(requests_, at_s(end_s_)); }

 private:
  core::RandomStream random_;
  std::vector<signals::RecentRequest> requests_;
  double end_s_ = 0.0;
};

TEST(TrafficStep, ALargeOneIsFoundWithinThreeSeconds) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const auto step = Traffic{seed}.until(600, 0.7).until(603, 20).step();
    ASSERT_TRUE(step) << seed;
    EXPECT_EQ(*step, at_s(600));
  }
}

TEST(TrafficStep, IsFoundWithinFiveSeconds) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const auto step = Traffic{seed}.until(600, 0.7).until(605, 12).step();
    ASSERT_TRUE(step) << seed;
    EXPECT_EQ(*step, at_s(600));
  }
}

TEST(TrafficStep, ASmallerOneIsFoundWithinTenSeconds) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed)
    EXPECT_TRUE(Traffic{seed}.until(300, 2).until(310, 12).step()) << seed;
}

// At 4 times the rate, ten seconds of bursty traffic may hold as many requests by chance; thirty do not.
TEST(TrafficStep, ThatBurstsHideIsFoundWithinThirtySeconds) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Traffic traffic{seed};
    for (double start = 0.0; start < 600.0; start += 60.0) traffic.until(start + 50.0, 1.0).until(start + 60.0, 3.5);
    EXPECT_FALSE(traffic.step()) << seed;
    EXPECT_TRUE(traffic.until(630.0, 7.0).step()) << seed;
  }
}

TEST(TrafficStep, SteadyRandomTrafficHasNone) {
  for (const double rate : {0.05, 0.7, 5.0, 60.0})
    for (std::uint64_t seed = 1; seed <= 20; ++seed)
      for (const double end_s : {120.0, 123.0, 600.0})
        EXPECT_FALSE(Traffic{seed}.until(end_s, rate).step()) << rate << " 1/s, seed " << seed;
}

TEST(TrafficStep, TrafficThatIsBurstyAllTheTimeHasNone) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Traffic traffic{seed};
    for (double start = 0.0; start < 600.0; start += 60.0) traffic.until(start + 50.0, 0.7).until(start + 60.0, 12.0);
    EXPECT_FALSE(traffic.step()) << seed;
  }
}

TEST(TrafficStep, NeedsAMinuteOfTrafficBefore) {
  EXPECT_FALSE(Traffic{}.until(5, 50).step());
  EXPECT_FALSE(Traffic{}.until(40, 0.7).until(45, 50).step());
  EXPECT_FALSE(traffic_step({}, at_s(100)));
}

}  // namespace
}  // namespace penstock::planner
