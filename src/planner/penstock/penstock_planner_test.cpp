#include "planner/penstock/penstock_planner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "planner/penstock/course_testing.h"

namespace penstock::planner {
namespace {

using testing::at_s;
using testing::Course;
using testing::engine;
using testing::pool_of;
using testing::quick;
using Fleet = std::vector<std::uint32_t>;

PlannerOptions only_throughput_loop() {
  PlannerOptions options = quick();
  options.load_loop.interval = {};
  return options;
}

PlannerOptions only_load_loop() {
  PlannerOptions options = quick();
  options.throughput_loop.interval = {};
  return options;
}

TEST(PenstockPlanner, HoldsUntilThereIsTrafficToTryFleetsOn) {
  Course run;
  EXPECT_DECISION(run.at_rate(0.2, 60).pools[0], 4, kInsufficientData, kNone);
  EXPECT_EQ(run.trials->loads, 0);
}

TEST(PenstockPlanner, GrowsToTheCheapestFleetThatKeepsTheGoal) {
  Course run;
  EXPECT_DECISION(run.at_rate(16.0, 120).pools[0], 8, kCheapestThatKeepsSlo, kNone);
}

TEST(PenstockPlanner, KeepsRoomForARiseWhileReplicasStart) {
  PlannerOptions options = quick();
  options.controller.reset();
  std::uint32_t before = 8;  // For the traffic as it is.
  for (const double start_up_s : {10.0, 900.0}) {
    Course run{options};
    run.start_up_s = start_up_s;
    const std::uint32_t target = run.at_rate(16.0, 900).pools[0].target;
    EXPECT_GT(target, before);  // the longer a start takes, the more can come meanwhile
    EXPECT_LT(target, 16U);
    before = target;
  }
}

TEST(PenstockPlanner, LeavesAsleepWhatIsNotNeededBeforeItWakesUp) {
  PlannerOptions options = quick();
  options.controller = Controller{.allowance = 0.01, .hold = std::chrono::minutes{15}};
  Course serves{options, {0.5}}, sleeps{options, {0.5}};
  for (Course* run : {&serves, &sleeps}) run->start_up_s = 600.0;
  PoolDecision all, part;
  sleeps.change = [&part](signals::Observation& seen) {
    seen.pools[0].wake_time = std::chrono::seconds{8};
    seen.pools[0].asleep_target = part.asleep;
  };
  std::uint32_t asleep = 0;
  double loaded = 0.0, served = 0.0;
  for (int minute = 0; minute < 120; ++minute) {
    // The rate doubles within twenty minutes and falls again.
    const int phase = minute % 40;
    const double rate = 2.0 * (1.0 + (phase < 20 ? phase : 40 - phase) / 20.0);
    all = serves.at_rate(rate, 60.0 * (minute + 1)).pools[0];
    for (int tick = 1; tick <= 12; ++tick) part = sleeps.at_rate(rate, 60.0 * minute + 5.0 * tick).pools[0];
    EXPECT_EQ(all.asleep, 0U);
    EXPECT_LE(part.target, all.target + 1) << minute;
    asleep += part.asleep;
    loaded += part.target + part.asleep;
    served += all.target;
  }
  // Replicas that start keep the others from stopping, but not from falling asleep.
  EXPECT_LT(loaded, 1.05 * served);
  EXPECT_GT(loaded, 0.75 * served);
  EXPECT_GT(asleep, 120U) << "more than one on average";
}

TEST(PenstockPlanner, ShrinksAfterALongLull) {
  Course run;
  EXPECT_EQ(run.at_rate(16.0, 300).pools[0].target, 8U);
  EXPECT_EQ(run.at_rate(4.0, 1800).pools[0].target, 2U);
}

TEST(PenstockPlanner, ShrinksWhenABurstIsFollowedByATrickle) {
  Course run;
  EXPECT_EQ(run.at_rate(16.0, 300).pools[0].target, 8U);
  run.change = [&run](signals::Observation&) {
    // One request every half minute: never idle, and never enough for a plan.
    if (static_cast<int>(run.now_s) % 30 == 0) run.requests.push_back({at_s(run.now_s), 500, 100, 100.0F, 10.0F, {}});
  };
  EXPECT_EQ(run.at_rate(0.0, 3600).pools[0].target, 1U);
}

TEST(PenstockPlanner, KeepsAFleetThatFits) {
  Course run;
  (void)run.at_rate(15.0, 300);
  run.changes.clear();
  (void)run.at_rate(15.0, 1800);
  EXPECT_TRUE(run.changes.empty());
}

TEST(PenstockPlanner, TheLoadLoopReactsBeforeTheForecastDoes) {
  Course run;
  EXPECT_EQ(run.at_rate(4.0, 900).pools[0].target, 2U);
  run.change = [](signals::Observation& seen) { seen.pools[0].unrouted_requests = 5; };
  // Over its five minutes the throughput loop sees a mean of 8 a second, the last minute has 24.
  const Decision decision = run.at_rate(24.0, 980);
  EXPECT_EQ(decision.pools[0].reason, Reason::kSloAtRisk);
  EXPECT_EQ(decision.cause, Cause::kEarlySigns);
  EXPECT_NE(decision.diagnosis.find("unrouted 5 requests"), std::string::npos) << decision.diagnosis;
  EXPECT_EQ(run.fleet, Fleet{12});
}

TEST(PenstockPlanner, ABurningSloTriggersTheLoadLoopAtOnce) {
  PlannerOptions options = only_load_loop();
  options.load_loop.interval = std::chrono::minutes{10};
  Course calm{options}, troubled{options};
  for (Course* run : {&calm, &troubled}) EXPECT_EQ(run->at_rate(8.0, 300).pools[0].target, 4U);
  troubled.change = [](signals::Observation& seen) { seen.pools[0].unrouted_requests = 5; };
  EXPECT_EQ(calm.at_rate(14.0, 400).pools[0].target, 4U) << "this is no step";
  EXPECT_EQ(troubled.at_rate(14.0, 400).pools[0].target, 7U);
}

TEST(PenstockPlanner, EitherLoopAloneFindsTheFleet) {
  for (const PlannerOptions& options : {only_throughput_loop(), only_load_loop()}) {
    Course run{options};
    EXPECT_DECISION(run.at_rate(16.0, 120).pools[0], 8, kCheapestThatKeepsSlo, kNone);
    EXPECT_EQ(run.at_rate(4.0, 1800).pools[0].target, 2U);
  }
}

TEST(PenstockPlanner, WithoutAnyLoopOrTrialsItHolds) {
  PlannerOptions options = only_load_loop();
  options.load_loop.interval = {};
  Course run{options};
  EXPECT_DECISION(run.at_rate(16.0, 300).pools[0], 4, kInsufficientData, kNone);
  EXPECT_EQ(run.trials->loads, 0);
}

// ---- targets that need no trials ------------------------------------------------------------------------------------

PoolDecision by_target(OptimizationTarget target, const signals::PoolObservation& pool) {
  PlannerOptions options = quick();
  options.target = target;
  const auto planner = make_penstock_planner(nullptr, {}, options);
  signals::Observation seen;
  seen.pools = {pool};
  PoolDecision last;
  for (int tick = 1; tick <= 120; ++tick) {
    seen.now = at_s(5.0 * tick);
    for (auto& replica : seen.pools[0].replicas) replica.sample->sampled_at = seen.now;
    last = planner->decide(seen).pools[0];
    if (last.target != pool.target_replicas) return last;  // once the stabilisation window has gone by
  }
  return last;
}

TEST(PenstockPlanner, ThroughputAndLatencyNeedNeitherTrialsNorAnSlo) {
  const auto full = pool_of(4, engine(0, 8, 950)), half = pool_of(4, engine(0, 8, 550)),
             empty = pool_of(4, engine(0, 1, 20));
  for (const OptimizationTarget target : {OptimizationTarget::kThroughput, OptimizationTarget::kLatency}) {
    EXPECT_GT(by_target(target, full).target, 4U);
    EXPECT_EQ(by_target(target, full).reason, Reason::kLoadAboveTarget);
    EXPECT_LT(by_target(target, empty).target, 4U);
    EXPECT_EQ(by_target(target, empty).reason, Reason::kLoadBelowTarget);
  }
  // What is fine for throughput is too full for latency.
  EXPECT_LE(by_target(OptimizationTarget::kThroughput, half).target, 4U);
  EXPECT_GT(by_target(OptimizationTarget::kLatency, half).target, 4U);
}

TEST(PenstockPlanner, WithoutTrialsTheTargetSlaFallsBackToTheLoad) {
  EXPECT_EQ(by_target(OptimizationTarget::kSla, pool_of(4, engine(0, 8, 950))).reason, Reason::kLoadAboveTarget);
}

// ---- idle -----------------------------------------------------------------------------------------------------------

TEST(PenstockPlanner, GoesToTheMinimumWhenNothingCameForFiveMinutesAndNotBefore) {
  PlannerOptions options = quick();
  options.guardrails.stabilisation = std::chrono::seconds{30};
  Course run{options};
  run.change = [](signals::Observation& seen) { seen.pools[0].min_replicas = 2; };
  (void)run.at_rate(16.0, 600);
  run.changes.clear();
  const Decision before = run.at_rate(0.0, 900);  // the last request came at 600
  EXPECT_EQ(before.pools[0].reason, Reason::kCheapestThatKeepsSlo);
  EXPECT_TRUE(run.changes.empty());
  EXPECT_DECISION(run.at_rate(0.0, 1500).pools[0], 2, kIdle, kNone);
}

TEST(PenstockPlanner, IsNotIdleWhileARequestRuns) {
  Course run;
  run.change = [](signals::Observation& seen) { seen.pools[0].replicas[0].sample = engine(0, 1, 100); };
  (void)run.at_rate(16.0, 600);
  run.change = [&](signals::Observation& seen) {
    seen.pools[0].replicas[0].sample = engine(0, 1, 100);
    seen.pools[0].replicas[0].sample->sampled_at = seen.now;
  };
  EXPECT_NE(run.at_rate(0.0, 1800).pools[0].reason, Reason::kIdle);
}

TEST(PenstockPlanner, ALateStartDoesNotCountAsIdleTime) {
  Course run;
  run.now_s = 10'000.0;
  EXPECT_EQ(run.at_rate(0.0, 10'120).pools[0].reason, Reason::kInsufficientData);
  EXPECT_EQ(run.at_rate(0.0, 10'600).pools[0].reason, Reason::kIdle);
}

// ---- when trials are late -------------------------------------------------------------------------------------------

// 10 ms a step, half a millisecond for each sequence, 0.1 ms for each token of a prompt.
class EvenSteps final : public penstock::engine::StepTimeModel {
 public:
  [[nodiscard]] core::Duration step(const penstock::engine::StepShape& shape) const override {
    return std::chrono::microseconds{10'000 + 500 * std::int64_t{shape.decode_sequences} +
                                     100 * static_cast<std::int64_t>(shape.prefill_new_tokens)};
  }
  [[nodiscard]] std::string description() const override { return "even steps"; }
};

PoolProfile linear_profile() {
  PoolProfile profile;
  profile.step_time = std::make_shared<EvenSteps>();
  profile.limits.kv_tokens = 1e6;
  return profile;
}

// A trial a tick, and more than a hundred to make.
PlannerOptions too_much_to_try() {
  PlannerOptions options = only_load_loop();
  options.memory = {.length = std::chrono::hours{1},
                    .length_least = std::chrono::hours{1},
                    .slice_least = std::chrono::seconds{5},
                    .slice_most = std::chrono::seconds{5},
                    .tick_requests = 1};
  options.load_loop.look_back = std::chrono::hours{1};
  options.load_loop.requests_min = 3000;
  options.profiles = {linear_profile()};
  return options;
}

TEST(PenstockPlanner, TheTokenFormulaServesWhileTrialsDoNotFinish) {
  const PlannerOptions options = too_much_to_try();
  Course run{options};
  run.change = [](signals::Observation& seen) {
    for (signals::ReplicaObservation& replica : seen.pools[0].replicas)
      if (replica.sample) replica.sample->kv_capacity_tokens = 1'000'000;  // As in the profile.
  };
  const signals::SloPolicy slo;
  (void)run.at_rate(48.0, 80);
  const PoolDecision decision = run.at_rate(48.0, 120).pools[0];
  signals::PoolObservation pool = run.observe().pools[0];
  const auto formula = ReplicaSpeed{options.profiles[0]}.by_formula(pool, slo.target, 1.0, options.utilisation);
  ASSERT_TRUE(formula);
  ASSERT_GT(formula->replicas, 4U);
  EXPECT_DECISION(decision, formula->replicas, kFormula, kNone);
  EXPECT_EQ(decision.evidence[0].name, std::string{"by_input"});
}

TEST(PenstockPlanner, WithoutAProfileThereIsNoFormula) {
  PlannerOptions options = too_much_to_try();
  options.profiles.clear();
  Course run{options};
  EXPECT_DECISION(run.at_rate(64.0, 180).pools[0], 4, kInsufficientData, kNone);
}

TEST(PenstockPlanner, APlanThatIsInTimeNeedsNoFormula) {
  PlannerOptions options = quick();
  options.profiles = {linear_profile()};
  Course run{options, {32.0}};  // trials are far more hopeful than the formula
  EXPECT_DECISION(run.at_rate(64.0, 60).pools[0], 4, kCheapestThatKeepsSlo, kStabilization);
  EXPECT_EQ(run.at_rate(64.0, 600).pools[0].target, 2U);
}

// ---- an SLO that burns ----------------------------------------------------------------------------------------------

TEST(PenstockPlanner, GrowsInStepsWhileTheSloBurnsAgainstTheTrials) {
  Course run;
  EXPECT_EQ(run.at_rate(15.5, 400).pools[0].target, 8U);
  run.changes.clear();
  run.ttft_ms = [](const Course& course) { return course.fleet[0] < 12 ? 5000.0F : 100.0F; };
  Reason reason{};
  while (run.fleet[0] < 12 && run.now_s < 3000.0) reason = run.at_rate(15.5, run.now_s + 5.0).pools[0].reason;
  EXPECT_EQ(reason, Reason::kSloBurns);
  EXPECT_EQ(run.fleet[0], 12U);
  EXPECT_GE(run.changes.size(), 3U);  // not at once
  for (std::size_t i = 1; i < run.changes.size(); ++i) {
    EXPECT_GE(run.changes[i].first - run.changes[i - 1].first, 60.0);
    EXPECT_LE(run.changes[i].second - run.changes[i - 1].second, 2U);
  }
  const double at_s = run.now_s;
  (void)run.at_rate(15.5, at_s + 240.0);
  EXPECT_LE(run.fleet[0], 13U);  // what was late is a minute in the past
}

// Eight replicas just reach the goal. The ninth, which the correction adds, is no reason to plan for nine.
TEST(PenstockPlanner, ACorrectedFleetDoesNotRaiseThePlan) {
  Course run{quick(), {2.006}};
  EXPECT_EQ(run.at_rate(16.2, 400).pools[0].target, 8U);
  run.ttft_ms = [](const Course& course) { return course.fleet[0] < 9 ? 5000.0F : 100.0F; };
  while (run.fleet[0] < 9 && run.now_s < 3000.0) (void)run.at_rate(16.2, run.now_s + 5.0);
  (void)run.at_rate(16.2, run.now_s + 240.0);
  EXPECT_EQ(run.fleet[0], 9U);
}

TEST(PenstockPlanner, ASloThatBurnsWaitsForReplicasThatStart) {
  for (const bool told : {true, false}) {  // how long a start takes
    Course run;
    run.start_up_s = 180.0;
    if (!told) run.change = [](signals::Observation& seen) { seen.pools[0].start_up = {}; };
    (void)run.at_rate(15.5, 900);
    run.changes.clear();
    run.ttft_ms = [](const Course&) { return 5000.0F; };
    (void)run.at_rate(15.5, 1800);
    ASSERT_GE(run.changes.size(), 2U);
    for (std::size_t i = 1; i < run.changes.size(); ++i)
      EXPECT_GE(run.changes[i].first - run.changes[i - 1].first, run.start_up_s);
  }
}

TEST(PenstockPlanner, MissesThatTrialsExpectDoNotRaiseTheFleet) {
  Course run;
  run.change = [](signals::Observation& seen) { seen.pools[0].max_replicas = 4; };  // half of what it would take
  run.ttft_ms = [](const Course& course) { return course.requests.size() % 2 == 0 ? 5000.0F : 100.0F; };
  const PoolDecision decision = run.at_rate(16.0, 1200).pools[0];
  EXPECT_EQ(decision.target, 4U);
  EXPECT_NE(decision.reason, Reason::kSloBurns);
}

// ---- capacity that is on its way ------------------------------------------------------------------------------------

TEST(PenstockPlanner, StartingReplicasCountSoThatNothingOvershoots) {
  for (const float ttft_ms : {100.0F, 1900.0F}) {
    Course run;
    run.start_up_s = 600.0;
    run.ttft_ms = [=](const Course&) { return ttft_ms; };
    run.change = [](signals::Observation& seen) { seen.pools[0].unrouted_requests = 50; };  // in trouble all the time
    (void)run.at_rate(16.0, 900);
    EXPECT_EQ(run.fleet, Fleet{8});
    EXPECT_EQ(run.changes.size(), 1U);
  }
}

TEST(PenstockPlanner, TheLoadRuleDoesNotRequestStartingReplicasTwice) {
  PlannerOptions options = quick();
  options.target = OptimizationTarget::kThroughput;
  Course run{options};
  run.start_up_s = 600.0;
  run.change = [](signals::Observation& seen) {
    for (auto& replica : seen.pools[0].replicas)
      if (replica.sample) {
        replica.sample = engine(0, 8, 1000);
        replica.sample->sampled_at = seen.now;
      }
  };
  (void)run.at_rate(16.0, 500);
  EXPECT_EQ(run.changes.size(), 1U);
  EXPECT_EQ(run.fleet, Fleet{6});  // ⌈4 · 1 / 0.72⌉
}

// ---- several targets ------------------------------------------------------------------------------------------------

TEST(PenstockPlanner, ASegmentWithAStricterGoalDecides) {
  signals::SloPolicy slo;
  slo.goal = 0.5;
  slo.segments.resize(1);
  slo.segments[0].goal = 0.99;
  for (const bool strict : {false, true}) {
    slo.segments[0].goal = strict ? 0.99 : 0.5;
    Course run{quick(), {2.0}, slo};
    run.trials->target_factors = {1.0, 1.0};
    run.target_of = [](std::size_t number) { return static_cast<std::uint8_t>(number % 2); };
    EXPECT_EQ(run.at_rate(16.0, 900).pools[0].target, strict ? 8U : 4U);
  }
}

TEST(PenstockPlanner, ASegmentThatIsHarderToServeDecides) {
  signals::SloPolicy slo;
  slo.goal = 0.99;
  slo.segments.resize(1);
  slo.segments[0].goal = 0.99;
  Course run{quick(), {2.0}, slo};
  run.trials->target_factors = {1.0, 0.5};
  run.target_of = [](std::size_t number) { return static_cast<std::uint8_t>(number % 2); };
  EXPECT_EQ(run.at_rate(16.0, 600).pools[0].target, 16U);
}

TEST(PenstockPlanner, ASegmentOfFewRequestsCountsAsMuch) {
  signals::SloPolicy slo;
  slo.segments.resize(1);
  Course run{quick(), {2.0}, slo};
  run.trials->target_factors = {1.0, 0.25};
  run.target_of = [](std::size_t number) { return std::uint8_t{number % 400 == 0}; };
  EXPECT_NEAR(run.at_rate(16.0, 900).pools[0].target, 32.0, 1.0);
}

TEST(PenstockPlanner, SizesEachPoolOfADisaggregatedDeployment) {
  Course run{quick(), {2.0, 4.0}};
  (void)run.at_rate(16.0, 900);
  EXPECT_EQ(run.fleet, (Fleet{8, 4}));
}

// ---- what a decision says -------------------------------------------------------------------------------------------

TEST(PenstockPlanner, ShowsWhatItTriedAndWhatItChose) {
  Course run;
  const Decision decision = run.at_rate(15.5, 200);
  ASSERT_FALSE(decision.candidates.empty());
  const auto chosen = [](const Candidate& candidate) { return candidate.chosen; };
  ASSERT_EQ(std::count_if(decision.candidates.begin(), decision.candidates.end(), chosen), 1);
  EXPECT_EQ(std::find_if(decision.candidates.begin(), decision.candidates.end(), chosen)->replicas, Fleet{8});
  for (const char* name :
       {"request_rate", "attainment_with_one_fewer_replica", "load_based_target", "hold", "budget_left", "burn_rate"})
    EXPECT_NE(sentence(decision.pools[0]).find(name), std::string::npos) << name << ": " << sentence(decision.pools[0]);
}

TEST(PenstockPlanner, EveryDecisionHasACauseAPhaseAndAForecast) {
  Course run;
  for (const double until_s : {5.0, 600.0}) {
    const Decision decision = run.at_rate(16.0, until_s);
    EXPECT_TRUE(decision.cause);
    EXPECT_FALSE(decision.diagnosis.empty());
    EXPECT_EQ(decision.phase, RolloutPhase::kCost);
    ASSERT_TRUE(decision.forecast);
    if (until_s > 100.0) {
      ASSERT_TRUE(decision.forecast->requests_per_s);
      EXPECT_NEAR(*decision.forecast->requests_per_s, 16.0, 1.0);
    }
  }
}

TEST(PenstockPlanner, RequestsTheDataOfItsLoopsAndDiagnosis) {
  const PlannerOptions options = quick();
  const auto planner = make_penstock_planner(nullptr, {}, options);
  EXPECT_EQ(planner->name(), "penstock");
  EXPECT_EQ(planner->interval(), options.interval);
  EXPECT_GE(planner->memory(), options.memory.length);
  EXPECT_TRUE(planner->wants_segments());
}

TEST(PenstockPlanner, TriesFewFleetsForALargeStep) {
  Course run{quick(), {0.05}};  // 20 a second need 400 replicas
  run.change = [](signals::Observation& seen) { seen.pools[0].max_replicas = 1000; };
  (void)run.at_rate(20.0, 10);
  EXPECT_LT(run.trials->attempts, 60);
}

// ---- stages after the plan ------------------------------------------------------------------------------------------

TEST(PenstockPlanner, SchedulesAndTheWarmPoolRaiseWhatIsPlanned) {
  PlannerOptions options = quick();
  options.schedule.warm_pool = 2;
  Course warm{options};
  EXPECT_DECISION(warm.at_rate(16.0, 300).pools[0], 10, kWarmPool, kNone);
  auto floor = forecast::make_floor("* * * * *", {}, std::chrono::hours{1}, 15);
  ASSERT_TRUE(floor);
  options.schedule.floors = {{"first", *floor}};
  Course scheduled{options};
  EXPECT_DECISION(scheduled.at_rate(16.0, 300).pools[0], 15, kSchedule, kNone);
  options.schedule.floors[0].pool = "second";
  Course other{options};
  EXPECT_EQ(other.at_rate(16.0, 300).pools[0].target, 10U);
}

TEST(PenstockPlanner, TheGpuBudgetLimits) {
  PlannerOptions options = quick();
  options.guardrails.gpu_budget = 12;
  Course run{options};
  run.change = [](signals::Observation& seen) { seen.pools[0].gpus_per_replica = 2; };
  EXPECT_DECISION(run.at_rate(16.0, 300).pools[0], 6, kCheapestThatKeepsSlo, kGpuBudget);
}

TEST(PenstockPlanner, NeverShrinksOnOldTelemetry) {
  Course run;
  EXPECT_EQ(run.at_rate(16.0, 300).pools[0].target, 8U);
  run.change = [](signals::Observation& seen) {
    for (auto& replica : seen.pools[0].replicas) replica.sample.reset();
  };
  EXPECT_DECISION(run.at_rate(4.0, 2000).pools[0], 8, kCheapestThatKeepsSlo, kStaleTelemetry);
}

}  // namespace
}  // namespace penstock::planner
