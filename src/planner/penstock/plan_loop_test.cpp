#include "planner/penstock/plan_loop.h"

#include <gtest/gtest.h>

#include "planner/penstock/trials_testing.h"

namespace penstock::planner {
namespace {

using testing::at_s;
using testing::pool_of;
using testing::RecordedTrials;

const MemoryOptions kNoLimit{
    .slice_least = std::chrono::seconds{60}, .slice_most = std::chrono::minutes{5}, .tick_requests = 100'000'000};

const MemoryOptions kOneTrial{
    .slice_least = std::chrono::seconds{60}, .slice_most = std::chrono::minutes{5}, .tick_requests = 1};

// A loop that is shown ten requests a second; fleets of `need` keep them all, smaller ones in proportion.
class Course {
 public:
  explicit Course(const PlanLoopOptions& options = {}, const MemoryOptions& memory_options = kNoLimit)
      : trials(std::make_shared<RecordedTrials>([this](double fleet, core::Instant) { return fleet / need; })),
        memory(std::make_shared<TrafficMemory>(trials, memory_options)),
        loop(memory, options) {}

  // True: there is a new plan.
  bool tick(double at, bool urgent = false) {
    if (at > arrived_s_) testing::add_requests(requests_, arrived_s_, at, rate_per_s);
    arrived_s_ = std::max(arrived_s_, at);
    signals::Observation observation;
    observation.now = at_s(at);
    observation.pools = {pool_of(replicas, testing::engine(0))};
    observation.recent = requests_;
    const core::Instant before = loop.plan() ? loop.plan()->made : core::kNever;
    memory->begin_tick(observation);
    loop.tick(
        observation, targets_of(observation),
        [&](double rate) {
          goals_asked.push_back(rate);
          return goal;
        },
        urgent);
    return loop.plan() && before != loop.plan()->made;
  }

  double need = 8.0, rate_per_s = 10.0;
  std::uint32_t replicas = 10;
  PlanGoal goal;
  std::vector<double> goals_asked;
  std::shared_ptr<RecordedTrials> trials;
  std::shared_ptr<TrafficMemory> memory;
  PlanLoop loop;

 private:
  std::vector<signals::RecentRequest> requests_;
  double arrived_s_ = 0.0;
};

TEST(PlanLoop, PlansTheCheapestFleet) {
  Course run;
  EXPECT_TRUE(run.tick(60));
  ASSERT_TRUE(run.loop.plan().has_value());
  EXPECT_EQ(run.loop.plan()->fleet, Fleet{8});
  EXPECT_EQ(run.loop.plan()->made, at_s(60));
  EXPECT_EQ(run.loop.plan()->requests, 600.0);
  EXPECT_NEAR(run.loop.plan()->rate, 10.0, 1e-9);
}

TEST(PlanLoop, HasNoPlanForFewRequests) {
  Course run{{.requests_min = 700}};
  EXPECT_FALSE(run.tick(60));
  EXPECT_FALSE(run.loop.waiting_since().has_value());
  EXPECT_TRUE(run.goals_asked.empty());
  EXPECT_TRUE(run.tick(75));  // as soon as there are enough, an interval or not
}

TEST(PlanLoop, APlanEndsWithTheMemoryOfItsTraffic) {
  for (const double trickle : {0.0, 0.05}) {
    Course run{{.interval = std::chrono::seconds{20}},
               {.length = std::chrono::minutes{5}, .tick_requests = 100'000'000}};
    EXPECT_TRUE(run.tick(60));
    run.rate_per_s = trickle;
    run.need = 1.0;
    double at = 100;
    for (; run.loop.plan()->requests >= 30.0; at += 40) {
      ASSERT_LT(at, 1200);
      run.tick(at);
    }
    EXPECT_EQ(run.loop.plan()->fleet, Fleet{1});
    EXPECT_NEAR(run.loop.plan()->rate, trickle, 0.01);
    EXPECT_GE(at, 360);
  }
}

TEST(PlanLoop, PlansOnceInAnInterval) {
  Course run{{.interval = std::chrono::seconds{180}}};
  EXPECT_TRUE(run.tick(60));
  for (double at = 65; at < 240; at += 5) EXPECT_FALSE(run.tick(at)) << at;
  EXPECT_TRUE(run.tick(240));
  EXPECT_EQ(run.goals_asked.size(), 2U);
}

TEST(PlanLoop, PlansAtOnceWhereItIsUrgent) {
  Course run;
  EXPECT_TRUE(run.tick(60));
  run.need = 14;
  EXPECT_FALSE(run.tick(65));
  EXPECT_TRUE(run.tick(70, true));
  EXPECT_EQ(run.loop.plan()->fleet, Fleet{14});
  EXPECT_FALSE(run.tick(245));  // the interval counts from there
  EXPECT_TRUE(run.tick(250));
}

TEST(PlanLoop, ComputesTheGoalAtTheRememberedRate) {
  Course run;
  run.goal = {.goals = {0.9}, .growth = 2.0, .futures = {1.0, 1.2}, .allowance = 0.05};
  EXPECT_TRUE(run.tick(60));
  ASSERT_EQ(run.goals_asked.size(), 1U);
  EXPECT_NEAR(run.goals_asked[0], 10.0, 1e-9);
  EXPECT_EQ(run.loop.plan()->fleet, Fleet{18});  // 90 % of twice the rate need 15; 95 % of that or 1.2 times that, 18
  EXPECT_EQ(run.loop.plan()->goal.growth, 2.0);
  run.rate_per_s = 30;
  EXPECT_TRUE(run.tick(240));
  EXPECT_NEAR(run.goals_asked[1], (600 + 5400) / 240.0, 1e-9);
}

TEST(PlanLoop, ASearchWithoutTimeGoesOnInTheNextTick) {
  Course run{{}, kOneTrial};  // a trial a tick
  double at = 60;
  EXPECT_FALSE(run.tick(at));
  EXPECT_EQ(run.loop.waiting_since(), at_s(60));
  while (!run.tick(at += 5)) {
    ASSERT_LT(at, 200);
    EXPECT_EQ(run.loop.waiting_since(), at_s(60));
    run.replicas = 1;  // the search goes on from the fleet that it began with
  }
  EXPECT_FALSE(run.loop.waiting_since().has_value());
  EXPECT_EQ(run.goals_asked.size(), 1U);
  EXPECT_EQ(run.loop.plan()->fleet, Fleet{8});
  EXPECT_EQ(run.loop.plan()->made, at_s(at));
  EXPECT_EQ(run.loop.plan()->requests, 600.0);  // what came meanwhile is for the next search
  for (const RecordedTrials::Attempt& attempt : run.trials->attempts) EXPECT_GE(attempt.replicas[0], 6U);
}

TEST(PlanLoop, AnUrgentCallDoesNotInterruptARunningSearch) {
  Course run{{}, kOneTrial};
  EXPECT_FALSE(run.tick(60));
  EXPECT_FALSE(run.tick(65, true));
  EXPECT_EQ(run.loop.waiting_since(), at_s(60));
  EXPECT_EQ(run.goals_asked.size(), 1U);
}

TEST(PlanLoop, TriesAgainWhenTrialsChange) {
  Course run;
  EXPECT_TRUE(run.tick(60));
  run.need = 9.0;
  run.memory->forget_outcomes();
  run.trials->attempts.clear();
  EXPECT_TRUE(run.tick(240));
  EXPECT_EQ(run.loop.plan()->fleet, Fleet{9});
  EXPECT_FALSE(run.trials->attempts.empty());
}

TEST(PlanLoop, ContinuesAfterTheClockGoesBack) {
  Course run;
  EXPECT_TRUE(run.tick(4000));
  bool planned = false;
  for (double at = 100; at <= 300; at += 5) planned = run.tick(at) || planned;
  EXPECT_TRUE(planned);
}

TEST(TargetsOf, IsTheLastTargetAndAtLeastOne) {
  signals::Observation observation;
  observation.pools = {pool_of(3, testing::engine(0)), pool_of(0, testing::engine(0))};
  observation.pools[0].ready = 1;
  EXPECT_EQ(targets_of(observation), (Fleet{3, 1}));
}

}  // namespace
}  // namespace penstock::planner
