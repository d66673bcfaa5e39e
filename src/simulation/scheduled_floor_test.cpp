// What the calendar is good for: load that comes at a known time, with replicas that take minutes to start.
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "forecast/cron.h"
#include "planner/penstock/schedule_floor.h"
#include "simulation/run.h"
#include "simulation/world_testing.h"

namespace penstock::simulation {
namespace {

using planner::ScheduleFloor;
using planner::ScheduleOptions;
using std::chrono::minutes;
using std::chrono::seconds;
using testing::at_s;

constexpr double kStep = 20 * 60.0;  // the load comes at 8:00; the run begins at 7:40 …
constexpr double kEnd = 40 * 60.0;   // … and the last request comes at 8:20

// One request a second, and from 8:00 on twelve.
workload::Workload step_of_load() {
  core::RandomStream random{3};
  std::vector<double> arrivals;
  for (double at = 0.0; at < kEnd; at += random.exponential(at < kStep ? 1.0 : 1.0 / 12.0)) arrivals.push_back(at);
  return testing::requests_at(arrivals, 400, 60);
}

RunOptions slow_to_start() {
  auto spec = testing::pool(1, 8);
  spec.engine.max_sequences = 4;
  spec.start_up = seconds{180};
  RunOptions options = testing::options(spec);
  options.slo.ttft = seconds{2};
  return options;
}

// Any policy, asked every 15 s, with the stage behind it.
class Scheduled final : public decision::Policy {
 public:
  Scheduled(std::unique_ptr<decision::Policy> policy, ScheduleOptions options)
      : policy_(std::move(policy)), stage_(std::move(options)) {}

  [[nodiscard]] std::string_view name() const override { return "scheduled"; }
  [[nodiscard]] core::Duration interval() const override { return seconds{15}; }
  [[nodiscard]] decision::Decision decide(const signals::Observation& observation) override {
    decision::Decision decision = policy_->decide(observation);
    stage_.apply(observation, decision.pools);
    return decision;
  }

 private:
  std::unique_ptr<decision::Policy> policy_;
  ScheduleFloor stage_;
};

std::unique_ptr<decision::Policy> policy_of(std::string_view name, const RunOptions& options) {
  planner::PolicyContext context;
  context.slo = options.slo;
  context.capacity = {4.0, 1600.0, 240.0, 3.0};
  auto made = planner::make_policy(name, context);
  PENSTOCK_ASSERT(made.has_value(), "tests ask for policies that exist");
  return std::move(*made);
}

ScheduleOptions eight_o_clock() {
  auto floor = forecast::make_floor("0 8 * * *", {}, minutes{30}, 5);
  PENSTOCK_ASSERT(floor.has_value(), "tests ask for schedules that exist");
  ScheduleOptions options;
  options.floors = {{"", std::move(*floor)}};
  options.unix_start = 7 * 3600 + 40 * 60;
  options.lead = seconds{30};
  return options;
}

decision::RunResult run_of(decision::Policy& policy, const RunOptions& options) {
  auto result = run(step_of_load(), policy, options);
  PENSTOCK_ASSERT(result.has_value(), "the options make a deployment");
  return std::move(*result);
}

TEST(ScheduledFloor, AvoidsTheViolationsOfAStepInLoad) {
  const RunOptions options = slow_to_start();
  const auto reactive = policy_of("hpa-rate", options);
  const auto late = run_of(*reactive, options);
  Scheduled scheduled(policy_of("static", options), eight_o_clock());
  const auto in_time = run_of(scheduled, options);

  EXPECT_LT(late.slo_attainment, 0.9);
  EXPECT_GT(in_time.slo_attainment, 0.995);

  // As good as the large fleet all the time, without its cost.
  RunOptions large = options;
  large.pools[0].replicas = 5;
  const auto fixed = policy_of("static", options);
  const auto always = run_of(*fixed, large);
  EXPECT_NEAR(in_time.slo_attainment, always.slo_attainment, 0.001);
  EXPECT_LT(in_time.gpu_hours, 0.7 * always.gpu_hours);
}

TEST(ScheduledFloor, ReplicasStartJustInTimeForTheWindow) {
  const RunOptions options = slow_to_start();
  Scheduled scheduled(policy_of("static", options), eight_o_clock());
  const auto result = run_of(scheduled, options);
  ASSERT_EQ(result.decisions.size(), 1U);
  EXPECT_EQ(result.decisions[0].reason, decision::Reason::kSchedule);
  EXPECT_EQ(result.decisions[0].target, 5U);
  EXPECT_LE(result.decisions[0].at, at_s(kStep - 180.0));
  EXPECT_GE(result.decisions[0].at, at_s(kStep - 180.0 - 30.0));
  for (const decision::SeriesPoint& point : result.series)
    EXPECT_TRUE(point.at < at_s(kStep) || point.ready == 5) << core::to_seconds(point.at);
}

TEST(ScheduledFloor, AReactivePolicyKeepsItsFreedomAboveIt) {
  const RunOptions options = slow_to_start();
  ScheduleOptions low = eight_o_clock();
  low.floors[0].floor.replicas = 2;
  Scheduled scheduled(policy_of("hpa-rate", options), low);
  const auto result = run_of(scheduled, options);
  EXPECT_GE(result.peak_replicas, 4U);
  EXPECT_EQ(result.decisions.front().target, 2U);
}

}  // namespace
}  // namespace penstock::simulation
