#include "planner/penstock/headroom.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "core/random.h"

namespace penstock::planner {
namespace {

using std::chrono::hours;
using std::chrono::minutes;

HeadroomOptions options_of(core::Duration lag, core::Duration hold = {}) {
  HeadroomOptions options;
  options.lag = lag;
  options.hold = hold;
  return options;
}

// A pool whose requests all look alike, so that its load is as its arrivals are.
class Course {
 public:
  explicit Course(const HeadroomOptions& options) : headroom(options) { tick({}); }

  void minute(std::uint64_t arrivals) {
    pool.arrivals_total += arrivals;
    pool.input_tokens_total += 500 * arrivals;
    pool.last_minute.completed = arrivals;
    pool.last_minute.completed_output_tokens = 100 * arrivals;
    for (int i = 0; i < 12; ++i) tick(std::chrono::seconds{5});
  }
  void minute_of_tokens(std::uint64_t arrivals, std::uint64_t mean_completed, std::uint64_t generated_tokens) {
    pool.arrivals_total += arrivals;
    pool.last_minute.completed = arrivals;
    pool.last_minute.completed_output_tokens = mean_completed * arrivals;
    generated += generated_tokens;
    for (int i = 0; i < 12; ++i) tick(std::chrono::seconds{5});
  }
  void go_on(int count, std::uint64_t arrivals) {
    for (int i = 0; i < count; ++i) minute(arrivals);
  }
  void tick(core::Duration passed) {
    now += passed;
    headroom.observe(now, pool, generated);
  }

  core::Instant now = core::kStart + hours{1};
  signals::PoolObservation pool;
  std::uint64_t generated = 0;
  Headroom headroom;
};

TEST(Headroom, IsTheStandardUntilAnHourIsKnown) {
  Course run{options_of(minutes{3})};
  run.go_on(59, 100);
  EXPECT_FALSE(run.headroom.known());
  EXPECT_EQ(run.headroom.learned(), 1.5);
  run.go_on(1, 100);
  EXPECT_TRUE(run.headroom.known());
  EXPECT_EQ(run.headroom.learned(), 1.1);
  EXPECT_EQ(run.headroom.standard(), 1.5);
}

// The answers that complete in a minute are not those that are generated in it.
TEST(Headroom, MeasuresAnswersAsTheyAreGenerated) {
  core::RandomStream random{1};
  Course noisy{options_of(minutes{3})}, steady{options_of(minutes{3})};
  for (int minute = 0; minute < 300; ++minute) {
    const auto mean = static_cast<std::uint64_t>(1000 + random.below(2000));
    noisy.minute_of_tokens(1000, mean, 0);
    steady.minute_of_tokens(1000, mean, 2'000'000);
  }
  EXPECT_GT(noisy.headroom.learned(), 1.3);
  EXPECT_EQ(steady.headroom.learned(), 1.1);
}

TEST(Headroom, IsRefinedWhileTheBudgetIsHardlyUsed) {
  Course run{options_of(minutes{3})};
  for (int i = 0; i < 12; ++i) {
    run.go_on(30, 1000);
    run.go_on(30, 1600);
  }
  const double learned = run.headroom.learned();
  EXPECT_GT(learned, 1.55);
  for (int i = 0; i < 100; ++i) run.headroom.refine(0.0, false);
  EXPECT_EQ(run.headroom.refined(), learned);  // The SLO has not been met for long enough.
  for (int i = 0; i < 50; ++i) run.headroom.refine(0.2, true);
  EXPECT_NEAR(run.headroom.refined(), 1.0 + 0.5 * (learned - 1.0), 1e-9);
  for (int i = 0; i < 50; ++i) run.headroom.refine(0.8, true);
  EXPECT_NEAR(run.headroom.refined(), 1.0 + 0.5 * (learned - 1.0), 1e-9);
  for (int i = 0; i < 500; ++i) run.headroom.refine(0.0, true);
  EXPECT_NEAR(run.headroom.refined(), 1.0 + 0.2 * (learned - 1.0), 1e-9);
  for (int i = 0; i < 10; ++i) run.headroom.refine(1.5, false);
  EXPECT_NEAR(run.headroom.refined(), 1.0 + 0.7 * (learned - 1.0), 1e-9);
  for (int i = 0; i < 100; ++i) run.headroom.refine(1.5, false);
  EXPECT_NEAR(run.headroom.refined(), 1.0 + 1.5 * (learned - 1.0), 1e-9);
}

// Short peaks, ten minutes apart: a fleet that stays large needs no headroom for them.
TEST(Headroom, ALongerHoldReplacesHeadroomWhereItCostsLess) {
  Course run{options_of(minutes{1}, minutes{5})};
  for (int i = 0; i < 100; ++i) {
    run.go_on(9, 1000);
    run.go_on(1, 1800);
  }
  EXPECT_EQ(run.headroom.hold(), minutes{5});
  run.headroom.refine(0.0, true);
  EXPECT_GT(run.headroom.learned(), 1.7);  // For five minutes.
  EXPECT_NEAR(run.headroom.refined(), 1.0 + 0.99 * 0.1, 1e-9);
  EXPECT_EQ(run.headroom.hold(), minutes{15});
}

TEST(Headroom, CoversStepsOfAKnownSizeButNoMore) {
  for (const double step : {1.2, 1.6, 2.0}) {
    Course run{options_of(minutes{3})};
    for (int hour = 0; hour < 12; ++hour) {
      run.go_on(30, 1000);
      run.go_on(30, static_cast<std::uint64_t>(1000 * step));
    }
    EXPECT_GE(run.headroom.learned(), step - 1e-9);
    EXPECT_LE(run.headroom.learned(), step + 0.051);
  }
}

TEST(Headroom, RareStepsWithinTheGoalNeedNoHeadroom) {
  // Steps of a minute once in so many hours; with a lag of a minute one minute in each is overrun, and half of 1 % is
  // allowed.
  for (const auto& [hours_apart, learned] : {std::pair{2, 1.6}, std::pair{6, 1.1}}) {
    Course run{options_of(minutes{1})};
    for (int i = 0; i < 12 / hours_apart; ++i) {
      run.go_on(60 * hours_apart - 1, 1000);
      run.go_on(1, 1600);
    }
    EXPECT_NEAR(run.headroom.learned(), learned, 0.051) << hours_apart;
  }
}

TEST(Headroom, AFleetThatStaysLargeAfterAFallNeedsLess) {
  Course shrinks{options_of(minutes{3})}, holds{options_of(minutes{3}, minutes{30})};
  for (Course* run : {&shrinks, &holds})
    for (int i = 0; i < 36; ++i) {
      run->go_on(10, 1800);
      run->go_on(10, 1000);
    }
  EXPECT_NEAR(shrinks.headroom.learned(), 1.8, 0.051);
  EXPECT_NEAR(holds.headroom.learned(), 1.1, 0.051);
}

TEST(Headroom, NeverLearnsMoreThanTheMost) {
  Course run{options_of(minutes{3})};
  for (int i = 0; i < 20; ++i) {
    run.go_on(10, 100);
    run.go_on(10, 1000);
  }
  EXPECT_EQ(run.headroom.learned(), 2.5);
}

TEST(Headroom, LongerAnswersAreMoreLoad) {
  Course run{options_of(minutes{3})};
  for (int i = 0; i < 20; ++i) {
    run.go_on(10, 100);
    for (int minute = 0; minute < 10; ++minute) {
      run.pool.arrivals_total += 100;
      run.pool.input_tokens_total += 500 * 100;
      run.pool.last_minute.completed_output_tokens = 200 * 100;  // 500 + 6 · 200 against 500 + 6 · 100 tokens
      run.tick(minutes{1});
    }
  }
  EXPECT_NEAR(run.headroom.learned(), 1700.0 / 1100, 0.051);
}

TEST(Headroom, ForgetsWhatIsOlderThanItsHistory) {
  Course run{options_of(minutes{3})};
  for (int i = 0; i < 40; ++i) {
    run.go_on(10, 1000);
    run.go_on(10, 2000);
  }
  EXPECT_NEAR(run.headroom.learned(), 2.0, 0.051);
  run.go_on(23 * 60, 1000);
  EXPECT_GT(run.headroom.learned(), 1.5);
  run.go_on(70, 1000);
  EXPECT_EQ(run.headroom.learned(), 1.1);
}

TEST(Headroom, CounterResetsAddNoLoad) {
  Course run{options_of(minutes{3})};
  for (int i = 0; i < 30; ++i) {
    run.go_on(9, 1000);
    run.pool.arrivals_total = run.pool.input_tokens_total = 0;
    run.minute(300);  // The load in between is unknown.
  }
  EXPECT_TRUE(run.headroom.known());
  EXPECT_EQ(run.headroom.learned(), 1.1);
}

TEST(Headroom, AGapIsNotAMinuteWithoutLoad) {
  Course run{options_of(minutes{3})};
  for (int i = 0; i < 30; ++i) {
    run.go_on(9, 1000);
    run.pool.arrivals_total += 5000;
    run.pool.input_tokens_total += 5000 * 500;
    run.tick(minutes{5});
  }
  EXPECT_EQ(run.headroom.learned(), 1.1);
}

TEST(Headroom, GoesOnAfterTheClockJumped) {
  for (const core::Duration jump : {core::Duration{hours{-1}}, core::Duration{hours{5}}}) {
    Course run{options_of(minutes{3})};
    run.go_on(30, 1000);
    run.tick(jump);
    EXPECT_FALSE(run.headroom.known());  // the hours of the jump were not seen
    run.go_on(30, 1000);
    EXPECT_TRUE(run.headroom.known());
    EXPECT_EQ(run.headroom.learned(), 1.1);
  }
}

// ---- against trying every headroom ----------------------------------------------------------------------------------

double least_headroom(const std::vector<double>& loads, const HeadroomOptions& options, std::size_t lag,
                      std::size_t hold) {
  for (double headroom = options.least; headroom < options.most; headroom += 0.001) {
    double requests = 0.0, overrun = 0.0, queue = 0.0;
    for (std::size_t t = lag; t < loads.size(); ++t) {
      const std::size_t known = t - lag, from = known < hold ? 0 : known - hold;
      const double largest = *std::max_element(loads.begin() + static_cast<std::ptrdiff_t>(from),
                                               loads.begin() + static_cast<std::ptrdiff_t>(known) + 1);
      queue = std::max(0.0, queue + loads[t] - headroom * largest);
      requests += loads[t];
      overrun += queue > 0.0 ? loads[t] : 0.0;
    }
    if (overrun <= options.budget_share * (1.0 - options.goal) * requests) return headroom;
  }
  return options.most;
}

TEST(HeadroomProperty, IsTheSmallestThatKeepsOverloadRareEnough) {
  core::RandomStream random{20260315};
  int between = 0;
  for (int round = 0; round < 60; ++round) {
    const auto lag = static_cast<std::size_t>(random.below(8)), hold = static_cast<std::size_t>(random.below(20));
    HeadroomOptions options = options_of(minutes{lag}, minutes{hold});
    options.goal = random.uniform(0.9, 0.995);
    Course run{options};
    std::vector<double> loads;
    const double roughness = random.uniform(0.02, 0.4);
    double level = 1000.0;
    for (int minute = 0; minute < 240; ++minute) {
      if (random.below(20) == 0) level = random.uniform(500.0, 2000.0);
      loads.push_back(std::floor(level * random.log_normal(1.0, roughness)));
      run.minute(static_cast<std::uint64_t>(loads.back()));
    }
    const double least = least_headroom(loads, options, lag, hold);
    EXPECT_GE(run.headroom.learned(), least - 0.002) << "round " << round;
    EXPECT_LE(run.headroom.learned(), least + 0.051) << "round " << round;
    between += least > options.least && least < options.most ? 1 : 0;
  }
  EXPECT_GT(between, 20);
}

}  // namespace
}  // namespace penstock::planner
