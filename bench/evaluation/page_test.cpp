#include "evaluation/page.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "evaluation/chart.h"

namespace penstock::evaluation {

using namespace report;
namespace {

decision::RunResult run_of(const char* policy, std::uint32_t replicas, double gpu_hours, double attainment) {
  decision::RunResult result;
  result.policy = policy;
  result.router = "kv";
  result.replicas = result.peak_replicas = replicas;
  result.requests = 1000;
  result.gpu_hours = gpu_hours;
  result.slo_attainment = attainment;
  result.duration_s = 3600.0;
  return result;
}

Evaluation sample() {
  Evaluation evaluation;
  evaluation.command = "make evaluate QUICK=1";
  TraceEvaluation trace;
  trace.name = "sample";
  trace.title = "Sample <day>";
  trace.info.requests = 1000;
  trace.info.duration = std::chrono::hours{1};
  trace.info.pools.resize(1);
  trace.info.pools.front().max_replicas = 8;
  trace.results = {run_of("penstock", 2, 3.0, 0.96), run_of("static", 2, 2.0, 0.80), run_of("kpa", 2, 6.0, 0.90),
                   run_of("apa", 2, 2.0, 0.95), run_of("clairvoyant", 2, 2.8, 0.965)};
  trace.frontier = {run_of("static", 1, 1.0, 0.5), run_of("static", 2, 2.0, 0.8), run_of("static", 4, 4.0, 0.96),
                    run_of("static", 8, 8.0, 0.9605)};
  evaluation.traces.push_back(trace);
  return evaluation;
}

Judgement judgement_on(const Evaluation& evaluation, const std::string& against) {
  const auto judgements = judge(evaluation);
  const auto found =
      std::find_if(judgements.begin(), judgements.end(), [&](const auto& one) { return one.against == against; });
  return found == judgements.end() ? Judgement{} : *found;
}

TEST(Judgements, AreComputedFromTheRuns) {
  const Evaluation evaluation = sample();
  EXPECT_EQ(judgement_on(evaluation, "static frontier").figures, "+8.00 points");
  EXPECT_EQ(judgement_on(evaluation, "static frontier").reached, true);
  EXPECT_EQ(judgement_on(evaluation, "clairvoyant").figures, "−0.50 points, 1.07× GPU-hours");
  EXPECT_EQ(judgement_on(evaluation, "clairvoyant").reached, true);
  EXPECT_EQ(judgement_on(evaluation, "kpa").figures, "0.40× violations, 0.50× GPU-hours");
  EXPECT_EQ(judgement_on(evaluation, "kpa").reached, true);
  EXPECT_EQ(judgement_on(evaluation, "apa").reached, false);
  EXPECT_EQ(judgement_on(evaluation, "flapping").reached, true);
}

TEST(Judgements, CompareThePeakFleetOnWholeDaysOnly) {
  Evaluation evaluation = sample();
  EXPECT_EQ(judgement_on(evaluation, "static at peak size").figures, "100.00 % of its attainment, 0.75× GPU-hours");
  EXPECT_EQ(judgement_on(evaluation, "static at peak size").reached, std::nullopt);
  evaluation.traces.front().day_long = true;
  EXPECT_EQ(judgement_on(evaluation, "static at peak size").reached, false);
}

TEST(Judgements, LeaveMissingRunsUndecided) {
  Evaluation evaluation = sample();
  evaluation.traces.front().results.pop_back();  // the clairvoyant
  evaluation.traces.front().frontier.clear();
  for (const char* against : {"clairvoyant", "static frontier", "static at peak size"}) {
    EXPECT_EQ(judgement_on(evaluation, against).figures, "–");
    EXPECT_EQ(judgement_on(evaluation, against).reached, std::nullopt);
  }
}

TEST(EvaluationPage, CountsReachedGoalsAndOrdersPolicies) {
  const std::string page = evaluation_markdown(sample(), "images");
  EXPECT_NE(page.find("`penstock` reached 4 of 5."), std::string::npos);
  EXPECT_NE(page.find("(images/evaluation-sample.svg)"), std::string::npos);
  EXPECT_NE(page.find("| **penstock** | 96.00 % | 40 | 3 | 2 to 2 | 0 | 0.0 | +8.00 | −0.50 | 1.07 |"),
            std::string::npos);
  EXPECT_LT(page.find("| clairvoyant |"), page.find("| **penstock** |"));
  EXPECT_LT(page.find("| **penstock** |"), page.find("| apa |"));
  EXPECT_EQ(page.find("## Robustness"), std::string::npos);
  EXPECT_TRUE(page.ends_with("`make evaluate QUICK=1`\n"));
}

TEST(EvaluationPage, ListsTheViolationsOfScenarios) {
  Evaluation evaluation = sample();
  ScenarioEvaluation scenario;
  scenario.name = "start-up 30 s";
  scenario.workload = "sample";
  scenario.result = run_of("penstock", 2, 3.0, 0.96);
  scenario.scale_down_failures = 2;
  scenario.invariants_broken = 3;
  scenario.first_broken = "leaves its bounds at 5 s";
  evaluation.scenarios.push_back(scenario);
  const std::string page = evaluation_markdown(evaluation, "images");
  EXPECT_NE(page.find("2 failed by\nscaling down, 3 invariants broken"), std::string::npos);
  EXPECT_NE(
      page.find(
          "| sample | start-up 30 s | 96.00 % | 3 | 2 to 2 | – | 0.0 | 0 | 2 | **3** (leaves its bounds at 5 s) |"),
      std::string::npos);
}

TEST(EvaluationPage, MarksAQuickRun) {
  Evaluation evaluation = sample();
  EXPECT_EQ(evaluation_markdown(evaluation, "images").find("quick look"), std::string::npos);
  evaluation.window = "only two hours";
  EXPECT_NE(evaluation_markdown(evaluation, "images").find("**This is a quick look:** only two hours."),
            std::string::npos);
}

TEST(EvaluationChart, HasADotAndALineOfTheLegendForEveryPolicy) {
  const Evaluation evaluation = sample();
  const std::string chart = attainment_chart(evaluation, evaluation.traces.front());
  EXPECT_NE(chart.find("Sample &lt;day&gt;"), std::string::npos);
  for (const char* label : {">penstock<", ">static 2<", ">kpa<", ">apa<", ">clairvoyant<", ">96.00 %<"})
    EXPECT_NE(chart.find(label), std::string::npos) << label;
  EXPECT_EQ(chart, attainment_chart(evaluation, evaluation.traces.front()));
}

TEST(EvaluationChart, StaysWithinItsFrameAtExtremeAttainment) {
  Evaluation evaluation = sample();
  evaluation.traces.front().results = {run_of("penstock", 1, 0.0, 1.0), run_of("kpa", 1, 1e6, 0.0)};
  evaluation.traces.front().frontier.clear();
  const std::string chart = attainment_chart(evaluation, evaluation.traces.front());
  for (const char* bad : {"nan", "inf", "=\"-"}) EXPECT_EQ(chart.find(bad), std::string::npos) << bad;
}

}  // namespace
}  // namespace penstock::evaluation
