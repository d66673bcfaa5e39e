#include "evaluation/trace_runs.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "evaluation/evaluation_testing.h"
#include "evaluation/studies.h"
#include "evaluation/traces.h"
#include "planner/policy.h"

namespace penstock::evaluation {
namespace {

using testing::sample;

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
  ASSERT_EQ(of_half->size(), 1U);
  EXPECT_GT(of_half->front(), first);
  const auto fixed = runs->fixed(*of_half);
  ASSERT_TRUE(fixed.has_value());
  EXPECT_GE(fixed->attainment, kGoal);
  EXPECT_GT(fixed->gpu_hours, of_half->front() * (20.0 - 7.0) / 60.0 * 0.99);  // Until the last response.
}

TEST(Ablations, RowsAsShippedAreThoseOfTheTrace) {
  Evaluation evaluation = sample();
  evaluation.traces[0].penstock.runs[1].cpu_s = 3.0;
  evaluation::Run compared;  // With one of the goals only.
  compared.setting = evaluation.traces[0].penstock.runs[1].setting;
  evaluation.ablations = {{"Sample <day>", {{"as shipped", "", {}}, {"no load loop", "", {compared}}}},
                          {"Another", {{"as shipped", "", {}}}}};
  fill_shipped(evaluation);
  const std::vector<evaluation::Run>& shipped = evaluation.ablations[0].rows[0].runs;
  ASSERT_EQ(shipped.size(), 1U);
  EXPECT_EQ(shipped[0].gpu_hours, 6.0);
  EXPECT_EQ(shipped[0].cpu_s, 0.0);
  EXPECT_EQ(evaluation.ablations[0].rows[1].runs.size(), 1U);
  EXPECT_TRUE(evaluation.ablations[1].rows[0].runs.empty());
}

TEST(TraceRuns, SeveralSeedsArePooled) {
  configuration::Configuration settings;
  settings.run.pools.front().max_replicas = 8;
  settings.traces.names = {"synthetic:rate=6,duration=5m,input=2000,input_cv=1,output=100,output_cv=1"};
  const std::uint64_t seeds[] = {1, 2};
  std::vector<evaluation::Run> alone;
  for (const std::uint64_t seed : seeds) {
    const auto runs = TraceRuns::prepare(settings, std::span{&seed, 1});
    ASSERT_TRUE(runs.has_value()) << runs.error().message();
    alone.push_back(*runs->fixed({2}));
  }
  const auto both = TraceRuns::prepare(settings, seeds);
  ASSERT_TRUE(both.has_value());
  const auto run = both->fixed({2});
  ASSERT_TRUE(run.has_value());
  EXPECT_NE(alone[0].requests, alone[1].requests);  // Each seed draws its own trace.
  EXPECT_EQ(run->requests, alone[0].requests + alone[1].requests);
  EXPECT_NEAR(run->gpu_hours, (alone[0].gpu_hours + alone[1].gpu_hours) / 2.0, 1e-9);
}

TEST(TraceRuns, TwoPoolsHaveAFirstFleetEach) {
  auto settings = settings_of_flags("--router kv --max-replicas 8 --pool role=prefill --pool role=decode");
  ASSERT_TRUE(settings.has_value()) << settings.error().message();
  settings->score_from = std::chrono::minutes{7};
  settings->traces.names = {"synthetic:rate=30,duration=12m,input=4000,input_cv=1,output=100,output_cv=1"};
  const auto runs = TraceRuns::prepare(*settings);
  ASSERT_TRUE(runs.has_value()) << runs.error().message();
  ASSERT_EQ(runs->info().pools.size(), 2U);
  EXPECT_GT(runs->info().pools[0].replicas, runs->info().pools[1].replicas);  // Prompts are most of the work.
  const auto cheaper = runs->smallest_fleet(core::kStart, core::kNever, 0.5);
  const auto whole = runs->smallest_fleet(core::kStart, core::kNever, 0.99);
  ASSERT_TRUE(cheaper.has_value() && whole.has_value());
  EXPECT_LE((*cheaper)[0] + (*cheaper)[1], (*whole)[0] + (*whole)[1]);
  const auto fixed = runs->fixed(*whole);
  ASSERT_TRUE(fixed.has_value());
  EXPECT_GE(fixed->attainment, 0.99);
}

TEST(Settings, AreFlagsOfAReplay) {
  const auto made = settings_of_flags("--router round-robin --wake-time=8s  --no-chunked-prefill");
  ASSERT_TRUE(made.has_value()) << made.error().message();
  EXPECT_EQ(made->run.router, routing::Strategy::kRoundRobin);
  EXPECT_EQ(made->run.pools.front().wake_time, std::chrono::seconds{8});
  EXPECT_FALSE(made->run.pools.front().engine.chunked_prefill);
  EXPECT_FALSE(settings_of_flags("--no-such-flag 1").has_value());
  EXPECT_FALSE(settings_of_flags("--wake-time soon").has_value());
  EXPECT_FALSE(settings_of_flags("8s").has_value());
}

TEST(Settings, AnEngineOfSeveralGpusCostsAllOfThem) {
  const auto dense = settings_of(*find_trace("azure-dense"), {"traces", false, 1});
  ASSERT_TRUE(dense.has_value()) << dense.error().message();
  EXPECT_EQ(dense->run.pools.front().gpus_per_replica, 4U);
  EXPECT_EQ(dense->run.pools.front().max_replicas, 32U);
  EXPECT_EQ(dense->score_from, std::chrono::minutes{7});
  const auto slow = settings_of(*find_trace("azure-300s"), {"traces", false, 1}, "--router kv");
  ASSERT_TRUE(slow.has_value());
  EXPECT_EQ(slow->run.router, routing::Strategy::kKv);
  EXPECT_EQ(slow->score_from, std::chrono::minutes{13});
}

TEST(Ablations, EachIsAValidChangeOfATrace) {
  ASSERT_FALSE(ablations().empty());
  EXPECT_TRUE(ablations().front().flags.empty() && ablations().front().change == nullptr);
  for (const Ablation& ablation : ablations()) {
    const std::string_view name = ablation.only_on.empty() ? "azure" : ablation.only_on;
    ASSERT_NE(find_trace(name), nullptr) << ablation.name;
    const auto settings = settings_of(*find_trace(name), {"traces", false, 1}, ablation.flags);
    EXPECT_TRUE(settings.has_value()) << ablation.name;
  }
  for (const AblationTrace& trace : ablation_traces({"traces", false, 1})) {
    EXPECT_NE(find_trace(trace.name), nullptr);
    EXPECT_EQ(std::count(trace.goals.begin(), trace.goals.end(), kGoal), 1);
  }
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
