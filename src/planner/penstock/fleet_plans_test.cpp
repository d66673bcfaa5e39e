#include "planner/penstock/fleet_plans.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "decision/figures.h"
#include "planner/penstock/course_testing.h"

namespace penstock::planner {
namespace {

using testing::at_s;
using testing::Course;
using testing::engine;
using testing::quick;

double evidence_of(const PoolDecision& decision, std::string_view name, std::string_view unit) {
  const auto value = decision::evidence_value(decision, name, unit);
  EXPECT_TRUE(value.has_value()) << name;
  return value.value_or(0.0);
}

double largest_multiple(const PoolDecision& decision) { return evidence_of(decision, "load_multiple_p97", "times"); }

PlannerOptions with_futures() {
  PlannerOptions options = quick();
  options.controller = Controller{.allowance = 0.1, .hold = {}};
  return options;
}

std::string state_of(Policy& planner) {
  core::StateArchive saved;
  planner.archive(saved);
  return saved.text();
}

TEST(FleetPlans, FuturesFollowTheStartUpTime) {
  Course run{with_futures()};
  run.start_up_s = 60.0;
  const double before = largest_multiple(run.at_rate(8.0, 120).pools[0]);
  run.start_up_s = 65.0;  // A measurement of the same time.
  EXPECT_NEAR(largest_multiple(run.at_rate(8.0, 180).pools[0]), before, 0.1);
  run.start_up_s = 600.0;
  EXPECT_GT(largest_multiple(run.at_rate(8.0, 240).pools[0]), 1.1 * before);
}

TEST(FleetPlans, AHoldKeepsReplicasAndStartsNone) {
  PlannerOptions options = quick();
  options.controller = Controller{.allowance = 1.0, .hold = std::chrono::minutes{40}};
  Course run{options};
  (void)run.at_rate(16.0, 300);
  EXPECT_EQ(run.at_rate(8.0, 1500).pools[0].target, 8U) << "the plan of 20 minutes ago";
  run.fleet[0] = 5;  // Someone else removes three.
  EXPECT_DECISION(run.at_rate(8.0, 2130).pools[0], 5, kCheapestThatKeepsSlo, kNone);
  EXPECT_GT(run.at_rate(16.0, 2200).pools[0].target, 5U) << "the traffic needs more";
}

TEST(FleetPlans, ARestoredStateFollowsTheStartUpTimeOfToday) {
  Course before{with_futures()}, after{with_futures()};
  before.start_up_s = 60.0;
  const double multiple = largest_multiple(before.at_rate(8.0, 300).pools[0]);
  const std::string state = state_of(*before.planner);
  core::StateArchive read{state};
  after.planner->archive(read);
  ASSERT_TRUE(read.finish());
  after.now_s = 300.0;
  after.start_up_s = 600.0;
  EXPECT_GT(largest_multiple(after.at_rate(8.0, 360).pools[0]), 1.1 * multiple);
}

TEST(FleetPlans, AnotherSloJudgesTheTrafficAnew) {
  signals::SloPolicy strict;
  strict.target.ttft = std::chrono::seconds{1};
  for (const bool same : {true, false}) {
    Course run;
    run.ttft_ms = [](const Course&) { return 1500.0F; };
    EXPECT_EQ(evidence_of(run.at_rate(8.0, 300).pools[0], "burn_rate", "times"), 0.0);
    const std::string state = state_of(*run.planner);
    run.planner = make_penstock_planner(run.trials, same ? signals::SloPolicy{} : strict, quick());
    core::StateArchive read{state};
    run.planner->archive(read);
    ASSERT_TRUE(read.finish());
    const int attempts = run.trials->attempts;
    const double burn = evidence_of(run.at_rate(8.0, 310).pools[0], "burn_rate", "times");
    if (same)
      EXPECT_EQ(burn, 0.0);
    else
      EXPECT_GT(burn, 50.0) << "all of the last minutes have missed";
    EXPECT_GT(run.trials->attempts, attempts);
  }
}

// An engine whose metrics cannot be read any more.
TEST(FleetPlans, AnOldSampleIsNoSignOfTrouble) {
  Course run;
  run.change = [](signals::Observation& seen) {
    if (seen.now < at_s(200)) return;
    seen.pools[0].replicas[0].sample = engine(3);
    seen.pools[0].replicas[0].sample->oldest_queued_age = std::chrono::seconds{5};
    seen.pools[0].replicas[0].sample->sampled_at = at_s(200);
  };
  EXPECT_EQ(run.at_rate(16.0, 300).pools[0].reason, Reason::kSloAtRisk);
  const Decision& later = run.at_rate(16.0, 600);
  EXPECT_EQ(later.pools[0].reason, Reason::kCheapestThatKeepsSlo);
}

TEST(FleetPlans, AReplicaAsleepIsNoWork) {
  Course run;
  run.change = [](signals::Observation& seen) {
    seen.pools[0].asleep = 1;
    seen.pools[0].replicas.push_back({99, signals::ReplicaState::kAsleep, {}, std::nullopt});
  };
  (void)run.at_rate(16.0, 600);
  EXPECT_EQ(run.at_rate(0.0, 1000).pools[0].reason, Reason::kIdle);
}

// Gateways that restarted, too, have forgotten the requests that plans were made for.
TEST(FleetPlans, ARestartWithoutTheRequestsOfItsPlanWaitsForNewOnes) {
  signals::SloPolicy slo;
  slo.segments.emplace_back().target.ttft = std::chrono::seconds{1};
  const auto with_segment = [&](Course& run) {
    run.trials->target_factors = {1.0, 0.5};
    run.target_of = [](std::size_t number) { return static_cast<std::uint8_t>(number % 2); };
  };
  Course before{quick(), {2.0}, slo}, after{quick(), {2.0}, slo};
  for (Course* run : {&before, &after}) with_segment(*run);
  const std::uint32_t planned = before.at_rate(8.0, 300).pools[0].target;
  const std::string state = state_of(*before.planner);
  core::StateArchive read{state};
  after.planner->archive(read);
  ASSERT_TRUE(read.finish());
  after.now_s = 300.0;
  after.fleet = before.fleet;
  EXPECT_EQ(after.at_rate(2.0, 310).pools[0].target, planned);
  EXPECT_EQ(after.trials->attempts, 0) << "20 requests are too few";
  EXPECT_EQ(after.at_rate(8.0, 400).pools[0].target, planned);
  EXPECT_GT(after.trials->attempts, 0);
}

// Outcomes of before have no objectives of segments.
TEST(FleetPlans, ASegmentMoreDiscardsOutcomes) {
  Course run;
  (void)run.at_rate(8.0, 300);
  const std::string state = state_of(*run.planner);
  signals::SloPolicy more;
  more.segments.emplace_back().target.ttft = std::chrono::seconds{1};
  run.trials->target_factors = {1.0, 0.5};
  run.target_of = [](std::size_t number) { return static_cast<std::uint8_t>(number % 2); };
  run.planner = make_penstock_planner(run.trials, more, quick());
  core::StateArchive read{state};
  run.planner->archive(read);
  ASSERT_TRUE(read.finish());
  EXPECT_GT(run.at_rate(8.0, 600).pools[0].target, 4U) << "the segment needs more replicas";
}

}  // namespace
}  // namespace penstock::planner
