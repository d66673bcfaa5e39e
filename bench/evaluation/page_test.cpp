#include "evaluation/page.h"

#include <gtest/gtest.h>

#include "evaluation/chart.h"
#include "evaluation/evaluation_testing.h"
#include "evaluation/targets.h"

namespace penstock::evaluation {
namespace {

using testing::run;
using testing::sample;

Target target_named(const Evaluation& evaluation, std::string_view name) {
  for (const Target& target : targets_of(evaluation))
    if (target.name == name) return target;
  ADD_FAILURE() << "no target " << name;
  return {};
}

constexpr std::string_view kDelivered = "attainment delivered for a goal of 99 %";
constexpr std::string_view kTunedHere = "GPU-hours at 99 % ÷ best peer tuned on that trace";
constexpr std::string_view kOracle = "GPU-hours at 99 % ÷ oracle";

TEST(Targets, AreComputedFromTheRuns) {
  const Evaluation evaluation = sample();
  EXPECT_EQ(target_named(evaluation, kDelivered).verdicts.at(0).figure, "99.00 %");
  EXPECT_TRUE(target_named(evaluation, kDelivered).reached());
  EXPECT_EQ(target_named(evaluation, kTunedHere).verdicts.at(0).figure, "0.75× `keda-tokens`");
  EXPECT_TRUE(target_named(evaluation, kTunedHere).reached());
  EXPECT_EQ(target_named(evaluation, kOracle).verdicts.at(0).figure, "1.20×");
  EXPECT_TRUE(target_named(evaluation, kOracle).reached());
  EXPECT_EQ(target_named(evaluation, "GPU-hours at a goal of 95 % ÷ at a goal of 99 %").verdicts.at(0).figure, "0.83×");
  EXPECT_EQ(target_named(evaluation, "GPU-hours at 99 % ÷ fixed fleet of the first half").verdicts.at(0).figure,
            "0.67×");
  EXPECT_TRUE(target_named(evaluation, "rules with their default settings that attain more for less").reached());
}

TEST(Targets, StateWhatTheOracleHasInstead) {
  const Evaluation evaluation = sample();
  EXPECT_EQ(target_named(evaluation, kDelivered).verdicts.at(0).beside, "best possible 99.99 %");
  EXPECT_EQ(target_named(evaluation, kTunedHere).verdicts.at(0).beside, "oracle 0.62×");
  EXPECT_EQ(target_named(evaluation, kOracle).verdicts.at(0).beside, "best peer tuned here 1.60×");
  EXPECT_EQ(target_named(evaluation, "GPU-hours at 99 % ÷ fixed fleet of the first half").verdicts.at(0).beside,
            "oracle 0.56×");
}

TEST(Targets, TheOracleIsStatedWhereATargetIsMissed) {
  Evaluation evaluation = sample();
  EXPECT_EQ(evaluation_markdown(evaluation, "images").find("(oracle"), std::string::npos);
  evaluation.traces.front().penstock.runs.back().gpu_hours = 8.4;
  EXPECT_NE(evaluation_markdown(evaluation, "images").find("sample: 1.05× `keda-tokens` **✗** (oracle 0.62×)"),
            std::string::npos);
}

TEST(Targets, TooMuchDeliveredIsAMissToo) {
  Evaluation evaluation = sample();
  evaluation.traces[0].penstock.runs[1].attainment = 0.9981;
  EXPECT_FALSE(target_named(evaluation, kDelivered).reached());
  evaluation.traces[0].penstock.runs[1].attainment = 0.987;
  EXPECT_FALSE(target_named(evaluation, kDelivered).reached());
}

TEST(Targets, AnAttainmentThatNoRunReachesIsNotRequired) {
  Evaluation evaluation = sample();
  TraceEvaluation& trace = evaluation.traces[0];
  trace.penstock.runs[1].attainment = 0.981;
  for (auto& each : trace.peers[0].runs) each.attainment = std::min(each.attainment, 0.985);
  for (auto& each : trace.fixed.runs) each.attainment = std::min(each.attainment, 0.985);
  trace.oracle[0].attainment = 0.985;
  EXPECT_TRUE(target_named(evaluation, kDelivered).reached());
  trace.penstock.runs[1].attainment = 0.979;
  EXPECT_FALSE(target_named(evaluation, kDelivered).reached());
}

TEST(Targets, DaysAskForMoreThanHours) {
  Evaluation evaluation = sample();
  evaluation.traces[0].penstock.runs[1].gpu_hours = 7.6;  // 0.95 of the peer's.
  EXPECT_TRUE(target_named(evaluation, kTunedHere).reached());
  evaluation.traces[0].day_long = true;
  EXPECT_FALSE(target_named(evaluation, kTunedHere).reached());
}

TEST(Targets, DirectionChangesAreJudgedOnDaysOnly) {
  Evaluation evaluation = sample();
  evaluation.traces[0].penstock.runs[1].direction_changes_per_day = 25.0;
  EXPECT_FALSE(target_named(evaluation, "direction changes per day, on days").applies());
  evaluation.traces[0].day_long = true;
  const Target target = target_named(evaluation, "direction changes per day, on days");
  EXPECT_TRUE(target.applies());
  EXPECT_FALSE(target.reached());
}

TEST(Targets, AShortStartUpAllowsLessAboveTheOracle) {
  Evaluation evaluation = sample();
  evaluation.traces[0].penstock.runs[1].gpu_hours = 6.3;  // 1.26 of the oracle's.
  EXPECT_TRUE(target_named(evaluation, kOracle).reached());
  evaluation.traces[0].info.start_up = std::chrono::seconds{30};
  EXPECT_FALSE(target_named(evaluation, kOracle).reached());
  evaluation.traces[0].info.start_up = std::chrono::seconds{300};
  EXPECT_FALSE(target_named(evaluation, kOracle).applies());
}

TEST(Targets, PenstockBelow99PercentIsNotReached) {
  Evaluation evaluation = sample();
  evaluation.traces[0].penstock.runs[1].attainment = 0.985;
  EXPECT_EQ(target_named(evaluation, kTunedHere).verdicts.at(0).figure, "not reached by Penstock");
  EXPECT_FALSE(target_named(evaluation, kTunedHere).reached());
}

TEST(Targets, TheWorstScenarioCounts) {
  Evaluation evaluation = sample();
  EXPECT_FALSE(target_named(evaluation, "worst case of the robustness table, on recorded traffic").applies());
  evaluation.scenarios.push_back({"start-up 30 s", "azure", false, run("penstock", 0.99, 5.0), 0.999, 0, 0, {}});
  evaluation.scenarios.push_back({"a crash", "azure", false, run("penstock", 0.96, 5.0), 0.969, 0, 0, {}});
  EXPECT_TRUE(target_named(evaluation, "worst case of the robustness table, on recorded traffic").reached());
  evaluation.scenarios.push_back({"a flash crowd", "synthetic", true, run("penstock", 0.5, 5.0), 1.0, 0, 0, {}});
  EXPECT_TRUE(target_named(evaluation, "worst case of the robustness table, on recorded traffic").reached());
  evaluation.scenarios[1].best_possible = 0.98;
  const Target target = target_named(evaluation, "worst case of the robustness table, on recorded traffic");
  EXPECT_FALSE(target.reached());
  EXPECT_EQ(target.verdicts.at(0).figure, "96.00 % (azure, a crash)");
}

TEST(Page, BeginsWithTheComparisonAtEqualAttainment) {
  const std::string page = evaluation_markdown(sample(), "images");
  EXPECT_NE(page.find("| Sample <day> | 6.00 | 0.75 (`keda-tokens`) |"), std::string::npos) << page;
  EXPECT_LT(page.find("## GPU-hours at an SLO attainment of 99 %"), page.find("## Targets"));
  EXPECT_LT(page.find("## Targets"), page.find("## Sample <day>"));
  EXPECT_NE(page.find("| **penstock** | 5.00 |"), std::string::npos);
  EXPECT_NE(page.find("![SLO attainment against GPU-hours](images/evaluation-sample.svg)"), std::string::npos);
  EXPECT_NE(page.find("| **penstock**, goal 99 % | 99.00 % |"), std::string::npos);
  EXPECT_NE(page.find("`make evaluate QUICK=1`"), std::string::npos);
}

TEST(Page, EqualEvaluationsGiveEqualBytes) {
  EXPECT_EQ(evaluation_markdown(sample(), "images"), evaluation_markdown(sample(), "images"));
  EXPECT_EQ(attainment_chart(sample().traces[0]), attainment_chart(sample().traces[0]));
}

TEST(Page, MarksAnUpperBoundAndWhatIsNotReached) {
  const std::string page = evaluation_markdown(sample(), "images");
  EXPECT_NE(page.find("Below 95 % with every setting, the best attainment of each: `dynamo-load` 50.00 %."),
            std::string::npos)
      << page;
  EXPECT_NE(page.find("| `keda-tokens` | ≤ 6.50 |"), std::string::npos) << page;
}

TEST(Page, ShowsWhatSettingsOfOtherTracesLeadTo) {
  Evaluation evaluation = sample();
  EXPECT_EQ(evaluation_markdown(evaluation, "images").find("| peer, tuned on |"), std::string::npos);
  evaluation.traces.push_back(evaluation.traces[0]);
  evaluation.traces[1].name = "other";
  evaluation.traces[1].peers[0].runs = {run("keda-tokens:utilisation=1", 0.991, 3.0, 1.0)};
  const std::string page = evaluation_markdown(evaluation, "images");
  EXPECT_NE(page.find("| peer, tuned on | other |"), std::string::npos) << page;
  EXPECT_NE(page.find("| `keda-tokens` | 97.00 % for 6.50 (utilisation 1) |"), std::string::npos) << page;
}

TEST(Page, HasARobustnessTableOnlyWithScenarios) {
  Evaluation evaluation = sample();
  EXPECT_EQ(evaluation_markdown(evaluation, "images").find("## Robustness"), std::string::npos);
  ScenarioEvaluation scenario{"a crash", "azure", false, run("penstock", 0.96, 5.0),
                              0.99,      2,       1,     "grows too fast at 3 s"};
  evaluation.scenarios.push_back(scenario);
  const std::string page = evaluation_markdown(evaluation, "images");
  EXPECT_NE(page.find("In all: 2 failed by scaling down, 1 invariants broken."), std::string::npos) << page;
  EXPECT_NE(page.find("**1** (grows too fast at 3 s)"), std::string::npos);
}

TEST(Page, RepeatsTheTablesOfTheOtherSimulator) {
  Evaluation evaluation = sample();
  EXPECT_EQ(evaluation_markdown(evaluation, "images").find("## Both simulators"), std::string::npos);
  evaluation.judged = "# Judged\n\nMethod.\n\n## Mooncake\n\n| a |\n|---|\n\n## Azure\n\n| b |\n";
  const std::string page = evaluation_markdown(evaluation, "images");
  EXPECT_NE(page.find("`make judged-by-dynamo`.\n\n### Mooncake\n\n| a |\n|---|\n\n### Azure\n\n| b |\n\n## Method"),
            std::string::npos)
      << page;
  EXPECT_EQ(page.find("Method.\n"), std::string::npos);
}

TEST(Page, ShowsTheRangeOverSeeds) {
  Evaluation evaluation = sample();
  EXPECT_EQ(evaluation_markdown(evaluation, "images").find("## Several seeds"), std::string::npos);
  TraceEvaluation& trace = evaluation.traces[0];
  trace.penstock.runs[1].of_seeds = {run("penstock", 0.990, 6.0), run("penstock", 0.992, 6.6),
                                     run("penstock", 0.985, 5.4)};
  const evaluation::Run peer = trace.peers[0].runs[1];
  trace.peers[0].runs[1].of_seeds = {peer, peer, peer};
  const std::string page = evaluation_markdown(evaluation, "images");
  EXPECT_NE(
      page.find("| Sample <day> | 3 | 98.90 % (98.50 to 99.20) | 6.00 (5.40 to 6.60) | `keda-tokens:utilisation=0.75` "
                "| 99.00 % (99.00 to 99.00) | 8.00 (8.00 to 8.00) |"),
      std::string::npos)
      << page;
}

TEST(Page, ComparesEachPartThatIsOffAtEqualAttainment) {
  Evaluation evaluation = sample();
  EXPECT_EQ(evaluation_markdown(evaluation, "images").find("## Ablation"), std::string::npos);
  // 99 % lies half way between 98 and 99.5 % on the logarithm of misses: (6 + 0.5 · 2) / 6. The run between them is
  // inefficient.
  evaluation.ablations = {
      {"Sample",
       {{"as shipped", "", {run("penstock", 0.98, 5.0, 0.95), run("penstock", 0.99, 6.0, 0.99)}},
        {"no load loop",
         "--load-interval 0s",
         {run("penstock", 0.98, 6.0, 0.95), run("penstock", 0.979, 6.3, 0.99), run("penstock", 0.995, 8.0, 0.995)}},
        {"one goal", "", {run("penstock", 0.97, 3.0, 0.99)}}}}};
  const std::string page = evaluation_markdown(evaluation, "images");
  EXPECT_NE(page.find("| as shipped | 99.00 % | 6.00 | +0 % | 1.00 | 0 |"), std::string::npos) << page;
  EXPECT_NE(page.find("| no load loop (`--load-interval 0s`) | 97.90 % | 6.30 | +5 % | 1.17 | 0 |"), std::string::npos)
      << page;
  EXPECT_NE(page.find("| one goal | 97.00 % | 3.00 | -50 % | – | 0 |"), std::string::npos) << page;
}

TEST(Page, StatesTheCpuTimeAndFurtherFlags) {
  Evaluation evaluation = sample();
  evaluation.cpu_s = 4321.4;
  evaluation.traces[0].flags = "--pool role=prefill --pool role=decode";
  evaluation.traces[0].info.pools.resize(2);
  evaluation.traces[0].info.pools[0].replicas = 5;
  const std::string page = evaluation_markdown(evaluation, "images");
  EXPECT_NE(page.find("It took 4321 s of CPU time."), std::string::npos);
  EXPECT_NE(page.find("- Sample <day>: `--pool role=prefill --pool role=decode`"), std::string::npos) << page;
  EXPECT_NE(page.find("| 5 + 1 |"), std::string::npos) << page;
}

TEST(Chart, HasALineForEachPolicyAndEscapesItsTitle) {
  const std::string chart = attainment_chart(sample().traces[0]);
  EXPECT_NE(chart.find("Sample &lt;day&gt;"), std::string::npos);
  for (const char* name : {"penstock", "keda-tokens", "fixed fleets", "clairvoyant"})
    EXPECT_NE(chart.find(name), std::string::npos) << name;
  EXPECT_EQ(chart.find("dynamo-load"), std::string::npos);  // It never comes close.
  EXPECT_NE(chart.find("6.00 h"), std::string::npos);
}

}  // namespace
}  // namespace penstock::evaluation
