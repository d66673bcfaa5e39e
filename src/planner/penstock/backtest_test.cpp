#include "planner/penstock/backtest.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "core/random.h"
#include "planner/penstock/futures.h"

namespace penstock::planner {
namespace {

using std::chrono::minutes;

constexpr double kCapacity = 100.0;  // Load of a replica at which half of the requests miss.

LoadCurve curve() {
  LoadCurve made;
  for (int percent = 20; percent <= 200; percent += 5)
    made.add(kCapacity * percent / 100, 1e9, 1e9 * std::clamp((percent - 80) / 40.0, 0.0, 1.0));
  made.age();
  return made;
}

// State of the fleet of a controller, read from an archive.
struct Served {
  double missed = 0.0, replicas = 0.0;
  std::uint32_t target = 0, ready = 0;
  std::deque<std::uint32_t> orders{};
  double queue = 0.0;
  bool moved = false, shrank = false;
  void archive(core::StateArchive& state) {
    state.values_of(missed, replicas, target, ready, orders, queue, moved, shrank);
  }
};

std::string text_of(Backtest& backtest) {
  core::StateArchive saved;
  backtest.archive(saved);
  return saved.text();
}

std::vector<Served> fleets_of(Backtest& backtest) {
  const std::string text = text_of(backtest);
  core::StateArchive read{text};
  double figure = 0.0;
  std::int64_t count = 0;
  std::vector<Served> fleets(60);
  BudgetUse use;
  read("backtest", figure, figure, figure, use, figure, figure, figure, count, count);
  read.elements(fleets);
  EXPECT_FALSE(read.failed());
  return fleets;
}

// Minutes of a load, planned for by what the load of the last two minutes suggests.
class Course {
 public:
  explicit Course(double goal = 0.99, core::Duration lag = minutes{2})
      : backtest({.goal = goal, .lag = lag}), goal_(goal), futures_(lag) {}

  // `load` by minute. Of the requests that the goal allows to miss, the real fleet missed `used` times as many.
  void run(int count, const std::function<double(int)>& load, double used = 1.0) {
    for (int i = 0; i < count; ++i, ++minute_) {
      const LoadMinute minute{load(minute_), 0.8 * load(minute_), load(minute_)};
      const double base = std::max(minute.peak, before_);
      before_ = minute.peak;
      futures_.observe(minute.peak, base, base);
      const double allowed = (1.0 - goal_) * minute.requests;
      const BudgetUse use{minute.requests, used * allowed + unavoidable, allowed + unavoidable, unavoidable};
      backtest.observe(minute, {base, futures_.multiples()}, curve_, use, size, in_force);
    }
  }

  Backtest backtest;
  FleetSize size{8, 1, 64};
  double unavoidable = 0.0;  // Requests a minute that a fleet of any size misses.
  bool in_force = true;

 private:
  double goal_, before_ = 0.0;
  Futures futures_;
  LoadCurve curve_ = curve();
  int minute_ = 0;
};

double flat(int /*minute*/) { return 1000.0; }
// Every quarter of an hour, the load doubles for three minutes.
double bursts(int minute) { return minute % 15 < 3 ? 2000.0 : 1000.0; }

double missed_of(Backtest& backtest) {
  const auto fleets = fleets_of(backtest);
  return std::accumulate(fleets.begin(), fleets.end(), 0.0,
                         [](double sum, const Served& served) { return sum + served.missed; });
}

TEST(Backtest, StricterGoalsPlanForFewerMissesAtFirst) {
  double missed = 1.0;
  for (const double goal : {0.5, 0.8, 0.9, 0.92, 0.94, 0.95, 0.96, 0.97, 0.98, 0.985, 0.99, 0.995, 0.998, 0.999, 1.0}) {
    const Backtest backtest{{.goal = goal, .lag = minutes{2}}};
    EXPECT_LE(backtest.missed_share(), missed) << goal;
    if (goal < 0.999) {
      EXPECT_LE(backtest.missed_share(), 1.0 - goal) << goal;
    }
    EXPECT_DOUBLE_EQ(backtest.replicas_to_first(), 1.0);
    missed = backtest.missed_share();
  }
}

// A fleet of one or two replicas would miss whole bursts.
TEST(Backtest, AFifthOfTheFuturesIsTheMostThatAGoalOfNinetyFivePercentGivesUpAtFirst) {
  const Backtest backtest{{.goal = 0.95, .lag = minutes{2}}};
  EXPECT_LE(backtest.first().allowance, 0.2);
}

TEST(Backtest, AQuietHourDoesNotJustifyAnAllowanceAboveAFifth) {
  for (const double load : {30.0, 250.0}) {
    Course course{0.95};
    course.size.replicas = 1;
    course.run(
        90, [&](int) { return load; }, 0.0);
    EXPECT_LE(course.backtest.chosen().allowance, 0.2) << load;
  }
}

// docs/planner.md names these.
TEST(Backtest, TheFirstChoiceIsTheDocumentedOne) {
  const auto first = [](double goal) { return Backtest{{.goal = goal, .lag = minutes{2}}}.first(); };
  EXPECT_EQ(first(0.99).allowance, 0.03);
  EXPECT_EQ(first(0.99).hold, minutes{5});
  EXPECT_EQ(first(0.95).allowance, 0.07);
  EXPECT_EQ(first(0.95).hold, minutes{5});
}

TEST(Backtest, NinesLowerTheAllowance) {
  double allowance = 1.0;
  for (const double goal : {0.8, 0.9, 0.95, 0.99, 0.999}) {
    const Backtest backtest{{.goal = goal, .lag = minutes{2}}};
    EXPECT_LE(backtest.first().allowance, allowance) << goal;
    allowance = backtest.first().allowance;
  }
  EXPECT_LT(allowance, 0.05);
}

TEST(Backtest, KeepsTheFirstChoiceWithoutTrials) {
  Backtest backtest{{.goal = 0.99, .lag = minutes{2}}};
  const std::vector<double> futures(Futures::kCount, 1.0);
  for (int minute = 0; minute < 600; ++minute)
    backtest.observe({1000, 800, 1000}, {1000, futures}, LoadCurve{}, {1000, 500, 10}, {});
  EXPECT_EQ(backtest.chosen().allowance, backtest.first().allowance);
  EXPECT_EQ(backtest.chosen().hold, backtest.first().hold);
}

TEST(Backtest, FlatLoadLeadsToACheapController) {
  Course course;
  course.run(12 * 60, flat, 0.0);
  EXPECT_GT(course.backtest.chosen().allowance, course.backtest.first().allowance);
  EXPECT_LT(course.backtest.replicas_to_first(), 1.0);
}

// They are allowed, and no controller is expected to avoid them.
TEST(Backtest, MissesOfAnyFleetChangeNothing) {
  Course course, unavoidable;
  unavoidable.unavoidable = 30.0;
  for (Course* each : {&course, &unavoidable}) each->run(12 * 60, bursts, 0.5);
  EXPECT_EQ(unavoidable.backtest.chosen().allowance, course.backtest.chosen().allowance);
  EXPECT_EQ(unavoidable.backtest.chosen().hold, course.backtest.chosen().hold);
}

// Before the last phase, the fleet is another controller's. It shows nothing of what this one would miss.
TEST(Backtest, AnotherControllersMissesChangeNothing) {
  Course careful, wasteful;
  careful.in_force = wasteful.in_force = false;
  careful.run(12 * 60, bursts, 0.0);
  wasteful.run(12 * 60, bursts, 3.0);
  EXPECT_EQ(careful.backtest.chosen().allowance, wasteful.backtest.chosen().allowance);
  EXPECT_EQ(careful.backtest.chosen().hold, wasteful.backtest.chosen().hold);
  EXPECT_EQ(careful.backtest.budget_left(), 1.0);
}

TEST(Backtest, BurstsLeadToLongHoldsOrSmallAllowances) {
  Course flat_course, course;
  flat_course.run(12 * 60, flat, 0.0);
  course.run(12 * 60, bursts, 0.5);
  const Controller calm = flat_course.backtest.chosen(), careful = course.backtest.chosen();
  EXPECT_TRUE(careful.allowance < calm.allowance || careful.hold > calm.hold);
  EXPECT_TRUE(careful.hold >= minutes{15} || careful.allowance <= 0.02);
  EXPECT_LE(course.backtest.missed_share(), 0.011);
}

// While the load rises, a long hold costs nothing. Soon after it has fallen, most of its cost is still to come.
TEST(Backtest, AHoldCostsWhatItStillKeeps) {
  Course course;
  course.size.replicas = 6;
  course.run(
      40, [](int minute) { return minute < 37 ? 500.0 * (1.0 + minute / 18.0) : 500.0; }, 0.0);
  EXPECT_LE(course.backtest.chosen().hold, minutes{10});
}

// The burst outlasts no start-up, so that no controller serves it and its misses exceed every budget.
TEST(Backtest, ABurstThatNoFleetServesIsNotAnsweredAtAnyPrice) {
  Course course{0.99, minutes{5}};
  course.run(40, flat, 0.0);
  course.run(
      5, [](int) { return 5000.0; }, 60.0);
  course.run(25, flat, 0.0);
  EXPECT_LT(course.backtest.budget_left(), 0.0);
  EXPECT_GT(course.backtest.missed_share(), 0.01);
  EXPECT_LT(course.backtest.chosen().hold, minutes{60});
}

TEST(Backtest, StricterGoalsMissLessOnTheSameLoad) {
  core::RandomStream random{3};
  std::vector<double> loads;
  for (int i = 0; i < 12 * 60; ++i) loads.push_back(1000.0 * random.log_normal(1.0, 0.25));
  double missed = 1.0;
  for (const double goal : {0.9, 0.97, 0.99, 0.999}) {
    Course course{goal};
    course.run(static_cast<int>(loads.size()), [&](int minute) { return loads[static_cast<std::size_t>(minute)]; });
    EXPECT_LT(course.backtest.missed_share(), missed) << goal;
    missed = course.backtest.missed_share();
  }
}

// The same noisy load, with another use of the error budget.
struct Use {
  double missed_share = 0.0, replicas = 0.0, budget_left = 0.0;
};
Use after(double used) {
  core::RandomStream random{5};
  Course course{0.97};
  course.run(
      12 * 60, [&](int) { return 1000.0 * random.log_normal(1.0, 0.25); }, used);
  return {course.backtest.missed_share(), course.backtest.replicas_to_first(), course.backtest.budget_left()};
}

TEST(Backtest, ObservedMissesMakeItCareful) {
  const Use even = after(1.0), overspent = after(3.0);
  EXPECT_LT(overspent.missed_share, even.missed_share);
  EXPECT_GT(overspent.replicas, even.replicas);
  EXPECT_NEAR(even.budget_left, 0.0, 1e-9);
  EXPECT_NEAR(overspent.budget_left, -2.0, 1e-9);
}

TEST(Backtest, UnusedBudgetMakesItCheaper) {
  const Use even = after(1.0), unused = after(0.0);
  EXPECT_GT(unused.missed_share, even.missed_share);
  EXPECT_LT(unused.replicas, even.replicas);
  EXPECT_DOUBLE_EQ(unused.budget_left, 1.0);
}

TEST(Backtest, ChoosesEveryTenMinutes) {
  core::RandomStream random{9};
  Course course;
  const auto noisy = [&](int) { return 1000.0 * random.log_normal(1.0, 0.4); };
  for (int i = 1; i <= 300; ++i) {
    const Controller before = course.backtest.chosen();
    course.run(1, noisy, i % 100 < 50 ? 4.0 : 0.0);
    if (i % 10 == 0) continue;
    EXPECT_EQ(course.backtest.chosen().allowance, before.allowance) << i;
    EXPECT_EQ(course.backtest.chosen().hold, before.hold) << i;
  }
}

TEST(Backtest, LongStartUpsMissMore) {
  double missed = 0.0;
  for (const int lag : {0, 2, 5, 10}) {
    Course course{0.99, minutes{lag}};
    course.run(240, [](int minute) { return 500.0 * std::exp2(minute % 60 / 15.0); });
    EXPECT_GT(missed_of(course.backtest), missed) << lag;
    missed = missed_of(course.backtest);
  }
}

TEST(Backtest, RequestsOfAnEmptyQueueAreInTime) {
  Course course{0.99, {}};
  course.size = {40, 40, 64};  // Far more than the load needs.
  course.run(300, flat);
  const auto fleets = fleets_of(course.backtest);
  for (const Served& served : fleets) EXPECT_DOUBLE_EQ(served.queue, 0.0);
}

TEST(Backtest, AQueueThatGrowsMakesAllRequestsLate) {
  Course course{0.99, {}};
  course.size = {4, 1, 4};  // The mean load alone exceeds what four replicas carry.
  course.run(300, flat);
  for (const Served& served : fleets_of(course.backtest)) {
    EXPECT_EQ(served.ready, 4U);
    EXPECT_GT(served.queue, 0.0);
  }
  EXPECT_GT(course.backtest.missed_share(), 0.5);
}

TEST(Backtest, AChangeOfDirectionCostsAStartUpAndFifteenMinutes) {
  constexpr double kKeptOfDay = 0.99861;  // Earlier minutes count less.
  Course course;
  course.run(1, bursts);
  std::vector<Served> before = fleets_of(course.backtest);
  int turns = 0;
  for (int i = 0; i < 300; ++i) {
    course.run(1, bursts);
    const std::vector<Served> now = fleets_of(course.backtest);
    for (std::size_t k = 0; k < now.size(); ++k) {
      const bool shrinks = now[k].target < before[k].target;
      const bool turned = now[k].target != before[k].target && before[k].moved && before[k].shrank != shrinks;
      turns += turned ? 1 : 0;
      const double minutes_of_replicas = now[k].replicas - kKeptOfDay * before[k].replicas - before[k].target;
      ASSERT_NEAR(minutes_of_replicas, turned ? 17.0 : 0.0, 1e-6) << i << " " << k;
    }
    before = now;
  }
  EXPECT_GT(turns, 100);
}

TEST(Backtest, AFleetShrinksOnlyToWhatHalfItsAllowanceNeeds) {
  constexpr double kAllowances[]{0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3, 0.4};
  constexpr double kToShrink[]{0.01, 0.01, 0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2};
  std::vector<double> futures;
  for (int i = 0; i < 16; ++i) futures.push_back(1.0 + 0.05 * i);
  for (const std::uint32_t from : {1U, 40U}) {
    const FleetSize size{from, 1, 64};
    Backtest backtest{{.goal = 0.99, .lag = minutes{2}}};
    for (int minute = 0; minute < 200; ++minute)
      backtest.observe({1000, 800, 1000}, {1000, futures}, curve(), {1000, 10, 10}, size);
    const std::vector<Served> fleets = fleets_of(backtest);
    for (std::size_t row = 0; row < 10; ++row) {
      const double allowance = from == 1 ? kAllowances[row] : kToShrink[row];
      const std::uint32_t expected = fleet_for(1000, futures, allowance, 0.99, curve(), size);
      for (std::size_t hold = 0; hold < 6; ++hold)
        EXPECT_EQ(fleets[6 * row + hold].target, expected) << from << " " << row << " " << hold;
    }
  }
}

TEST(Backtest, AFirstMinuteWithoutRequestsIsNoHistory) {
  Course course;
  const Controller first = course.backtest.first();
  course.run(30, [](int) { return 0.0; });
  EXPECT_EQ(course.backtest.chosen().allowance, first.allowance);
  EXPECT_TRUE(std::isfinite(course.backtest.missed_share()));
  course.run(60, bursts);
  EXPECT_TRUE(std::isfinite(course.backtest.missed_share()));
  EXPECT_TRUE(std::isfinite(course.backtest.replicas_to_first()));
}

TEST(Backtest, FleetsNeverLeaveTheirBounds) {
  core::RandomStream random{16};
  const LoadCurve known = curve();
  for (int sequence = 0; sequence < 40; ++sequence) {
    const auto lag = static_cast<std::size_t>(random.below(6));
    FleetSize size;
    size.least = static_cast<std::uint32_t>(random.below(10));
    size.most = std::max(1U, size.least) + static_cast<std::uint32_t>(random.below(60));
    size.replicas = std::max(1U, size.least);
    Backtest backtest{{.goal = random.uniform(0.5, 1.0), .lag = static_cast<int>(lag) * core::kMinute}};
    const double idle = random.uniform(0.0, 0.3), sigma = random.uniform(0.0, 1.5);
    for (int i = 0; i < 150; ++i) {
      const double peak = random.uniform() < idle ? 0.0 : random.log_normal(1000.0, sigma);
      std::vector<double> futures;
      for (std::size_t future = 0; future < Futures::kCount; ++future) futures.push_back(random.uniform(0.0, 8.0));
      std::sort(futures.begin(), futures.end());
      const double base = peak * random.uniform(0.0, 3.0);
      backtest.observe({peak, peak * random.uniform(), peak}, {base, futures, random.uniform(1.0, 3.0)}, known,
                       {peak, peak * random.uniform(0.0, 0.1), peak * 0.01}, size);
      ASSERT_TRUE(std::isfinite(backtest.missed_share()));
      ASSERT_GE(backtest.missed_share(), 0.0);
      ASSERT_LE(backtest.missed_share(), 1.0);
      ASSERT_GT(backtest.replicas_to_first(), 0.0);
      ASSERT_TRUE(std::isfinite(backtest.replicas_to_first()));
      if (i % 5 != 0) continue;
      for (const Served& served : fleets_of(backtest)) {
        if (served.target == 0) continue;  // Before the first request.
        ASSERT_GE(served.target, std::max(1U, size.least));
        ASSERT_LE(served.target, size.most);
        ASSERT_GE(served.ready, 1U);
        ASSERT_EQ(served.orders.size(), lag + 1);
        ASSERT_EQ(std::accumulate(served.orders.begin(), served.orders.end(), served.ready), served.target);
        ASSERT_GE(served.queue, 0.0);
        ASSERT_TRUE(std::isfinite(served.missed));
      }
    }
  }
}

TEST(Backtest, ContinuesFromItsArchive) {
  core::RandomStream random{11};
  std::vector<double> loads;
  for (int i = 0; i < 400; ++i) loads.push_back(1000.0 * random.log_normal(1.0, 0.4));
  const auto load = [&](int minute) { return loads[static_cast<std::size_t>(minute)]; };
  Course course;
  course.run(203, load);
  const std::string text = text_of(course.backtest);
  Course restored = course;
  restored.backtest = Backtest{{.goal = 0.99, .lag = minutes{2}}};
  core::StateArchive read{text};
  restored.backtest.archive(read);
  ASSERT_TRUE(read.finish());
  course.run(197, load);
  restored.run(197, load);
  EXPECT_EQ(text_of(course.backtest), text_of(restored.backtest));
  EXPECT_EQ(course.backtest.chosen().allowance, restored.backtest.chosen().allowance);
  EXPECT_EQ(course.backtest.replicas_to_first(), restored.backtest.replicas_to_first());
}

TEST(Backtest, ArchiveOfAnotherStartUpTimeIsRefused) {
  Course course;
  course.run(20, flat);
  const std::string text = text_of(course.backtest);
  Backtest other{{.goal = 0.99, .lag = minutes{3}}};
  core::StateArchive read{text};
  other.archive(read);
  EXPECT_FALSE(read.finish());
}

}  // namespace
}  // namespace penstock::planner
