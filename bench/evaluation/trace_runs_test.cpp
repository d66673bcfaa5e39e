#include "evaluation/trace_runs.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "evaluation/traces.h"
#include "planner/policy.h"

namespace penstock::evaluation {
namespace {

TEST(SweptParameters, EverySettingOfASweepIsAccepted) {
  std::vector<std::string_view> policies = planner::policy_names();
  policies.emplace_back("penstock");
  for (const std::string_view policy : policies) {
    const SweptParameter* parameter = swept_parameter(policy);
    if (parameter == nullptr) continue;
    for (const double setting : {parameter->axis.least, parameter->standard, parameter->axis.most}) {
      const std::string name = fmt::format("{}:{}={:.6g}", policy, parameter->name, setting);
      EXPECT_TRUE(planner::settings_of(name).has_value()) << name;
    }
  }
  EXPECT_NE(swept_parameter("keda-tokens"), nullptr);
  EXPECT_EQ(swept_parameter("static"), nullptr);
  EXPECT_EQ(swept_parameter("dynamo-latency"), nullptr);
}

TEST(TraceRuns, AllStartWithWhatTheFirstTenMinutesNeed) {
  configuration::Configuration settings;
  settings.run.router = routing::Strategy::kKv;
  settings.run.pools.front().max_replicas = 16;
  settings.score_from = std::chrono::minutes{7};
  // The rate of the first ten minutes is a sixth of that of the rest.
  settings.traces.names = {
      "synthetic:rate=4..24,shape=step,at=10m,duration=20m,input=2000,input_cv=1,output=200,output_cv=1"};
  const auto runs = TraceRuns::prepare(settings);
  ASSERT_TRUE(runs.has_value()) << runs.error().message();
  const std::uint32_t first = runs->info().pools.front().replicas;
  const auto of_half = runs->smallest_fleet(runs->middle(), core::kNever);
  ASSERT_TRUE(of_half.has_value());
  EXPECT_LE(first, 2U);
  EXPECT_GT(*of_half, first);
  const auto fixed = runs->fixed(*of_half);
  ASSERT_TRUE(fixed.has_value());
  EXPECT_GE(fixed->slo_attainment, kGoal);
  EXPECT_NEAR(fixed->gpu_hours, *of_half * fixed->duration_s / 3600.0, 1e-6);
}

TEST(EvaluationTraces, HaveNamesOfTheirOwnAndScoresBeginAfterTwoStartUps) {
  std::vector<std::string_view> names;
  for (const EvaluationTrace& trace : evaluation_traces()) {
    EXPECT_EQ(std::count(names.begin(), names.end(), trace.name), 0) << trace.name;
    names.push_back(trace.name);
    EXPECT_EQ(trace.day_long, trace.quick_window > core::Duration{}) << trace.name;
  }
  EXPECT_EQ(scored_from(std::chrono::seconds{120}), std::chrono::minutes{7});
}

}  // namespace
}  // namespace penstock::evaluation
