// A policy that is saved and restored in the middle of a run decides as one that was never interrupted.
#include <gtest/gtest.h>

#include <cmath>

#include "core/state_archive.h"
#include "engine/step_time.h"
#include "planner/penstock/penstock_planner.h"
#include "simulation/trials.h"
#include "simulation/world_testing.h"

namespace penstock::simulation {
namespace {

using Make = std::function<std::unique_ptr<decision::Policy>()>;

// Every so many decisions the policy is saved, thrown away, and restored into a new one.
class Restarting final : public decision::Policy {
 public:
  Restarting(Make make, int every) : make_(std::move(make)), every_(every), policy_(make_()) {}

  [[nodiscard]] std::string_view name() const override { return policy_->name(); }
  [[nodiscard]] core::Duration interval() const override { return policy_->interval(); }
  [[nodiscard]] core::Duration memory() const override { return policy_->memory(); }
  [[nodiscard]] bool wants_segments() const override { return policy_->wants_segments(); }
  [[nodiscard]] decision::Decision decide(const signals::Observation& observation) override {
    if (every_ > 0 && ++decided_ % every_ == 0) restart();
    return policy_->decide(observation);
  }

  int restarts = 0;

 private:
  void restart() {
    core::StateArchive saved;
    policy_->archive(saved);
    policy_ = make_();
    core::StateArchive read{saved.text()};
    policy_->archive(read);
    const auto done = read.finish();
    EXPECT_TRUE(done) << done.error().message();
    core::StateArchive again;
    policy_->archive(again);
    EXPECT_EQ(again.text(), saved.text());
    ++restarts;
  }

  Make make_;
  int every_;
  std::unique_ptr<decision::Policy> policy_;
  int decided_ = 0;
};

void expect_same(const std::vector<decision::DecisionRecord>& left, const std::vector<decision::DecisionRecord>& right,
                 std::string_view policy) {
  ASSERT_EQ(left.size(), right.size()) << policy;
  for (std::size_t i = 0; i < left.size(); ++i) {
    EXPECT_EQ(left[i].at, right[i].at) << policy;
    EXPECT_EQ(left[i].target, right[i].target) << policy;
    EXPECT_EQ(left[i].reason, right[i].reason) << policy;
    EXPECT_EQ(left[i].limited_by, right[i].limited_by) << policy;
    EXPECT_EQ(left[i].diagnosis, right[i].diagnosis) << policy;
    ASSERT_EQ(left[i].evidence.size(), right[i].evidence.size()) << policy;
    for (std::size_t k = 0; k < left[i].evidence.size(); ++k)
      EXPECT_EQ(left[i].evidence[k].value, right[i].evidence[k].value) << policy << left[i].evidence[k].name;
    ASSERT_EQ(left[i].forecast.has_value(), right[i].forecast.has_value()) << policy;
    if (left[i].forecast) {
      EXPECT_EQ(left[i].forecast->requests_per_s, right[i].forecast->requests_per_s) << policy;
    }
  }
}

// A fleet with crashes, refused actions and lost telemetry.
RunOptions setup() {
  RunOptions made = testing::options(testing::pool(2, 12));
  made.pools[0].engine.max_sequences = 8;
  made.pools[0].start_up = std::chrono::seconds{45};
  made.slo = {std::chrono::milliseconds{500}, std::chrono::milliseconds{20}};
  made.faults.crashes_per_replica_hour = 1.0;
  made.faults.refused_actions = 0.1;
  made.faults.telemetry_loss = 0.05;
  return made;
}

// A load that rises and falls with a period of a quarter of an hour.
workload::Workload wave(std::uint32_t requests) {
  core::RandomStream random{11};
  workload::Workload made = testing::random_workload(requests, 1.0);
  double at = 0.0;
  for (workload::Request& request : made.requests) {
    const double rate = 10.0 + 8.0 * std::sin(at / 150.0);
    at += random.exponential(1.0 / rate);
    request.arrival = testing::at_s(at);
  }
  return made;
}

void expect_restarts_change_nothing(const Make& make, std::uint32_t requests, int every) {
  const workload::Workload workload = wave(requests);
  const RunOptions options = setup();
  Restarting whole{make, 0}, restarted{make, every};
  const auto expected = run(workload, whole, options), result = run(workload, restarted, options);
  ASSERT_TRUE(expected && result);
  EXPECT_GT(restarted.restarts, 2);
  EXPECT_FALSE(expected->decisions.empty()) << whole.name();
  expect_same(result->decisions, expected->decisions, whole.name());
  expect_same(result->holds, expected->holds, whole.name());
  EXPECT_EQ(result->gpu_hours, expected->gpu_hours);
  EXPECT_EQ(result->slo_attainment, expected->slo_attainment);
}

TEST(PolicyRestart, EveryPolicyOfTheRegistryContinuesAsIfNothingHadHappened) {
  for (const std::string_view rule : planner::policy_names()) {
    // The engines run 8 sequences, where llm-d's targets are made for 16 running requests.
    const std::string smaller = std::string{rule} + ":running=3";
    const std::string name = planner::settings_of(smaller) ? smaller : std::string{rule};
    const auto make = [&] {
      planner::PolicyContext context;
      context.slo = setup().slo;
      context.capacity = {3.0, 900.0, 300.0, 6.0};
      context.max_sequences = 8;
      return std::move(*planner::make_policy(name, context));
    };
    if (make()->interval() != core::Duration::max()) expect_restarts_change_nothing(make, 8000, 11);
  }
}

TEST(PolicyRestart, PenstockContinuesWithPlansForecastsFuturesAndGuardrails) {
  for (const planner::RolloutPhase phase : {planner::RolloutPhase::kCost, planner::RolloutPhase::kThroughput}) {
    const auto make = [&] {
      const RunOptions options = setup();
      planner::PlannerOptions planner;
      planner.phase = phase;
      planner.schedule.warm_pool = 1;
      planner.profiles.emplace_back();
      planner.profiles[0].step_time = engine::slowed(options.pools[0].step_time, 1.2);
      signals::SloPolicy slo;
      slo.target = options.slo;
      return planner::make_penstock_planner(make_trials(options, {1.2}), slo, planner);
    };
    expect_restarts_change_nothing(make, 3000, 13);
  }
}

}  // namespace
}  // namespace penstock::simulation
