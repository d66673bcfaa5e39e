#include "report/ranking.h"

#include <gtest/gtest.h>

#include "report/report_testing.h"

namespace penstock::report {
namespace {

std::vector<std::string> labels(const std::vector<decision::RunResult>& results) {
  std::vector<std::string> labels;
  for (const RankedResult& ranked : rank(results)) labels.push_back(ranked.label);
  return labels;
}

decision::RunResult result_of(const char* policy, std::uint32_t replicas, double attainment, double gpu_hours) {
  decision::RunResult result;
  result.policy = policy;
  result.router = "kv";
  result.replicas = replicas;
  result.requests = 100;
  result.slo_attainment = attainment;
  result.gpu_hours = gpu_hours;
  return result;
}

TEST(Ranking, PutsTheHighestAttainmentFirstThenTheFewestGpuHours) {
  EXPECT_EQ(labels({result_of("a", 1, 0.5, 1.0), result_of("b", 1, 0.9, 9.0), result_of("c", 1, 0.9, 8.0)}),
            (std::vector<std::string>{"c", "b", "a"}));
}

TEST(Ranking, KeepsTheGivenOrderAmongEquals) {
  EXPECT_EQ(labels({result_of("b", 1, 0.5, 1.0), result_of("a", 1, 0.5, 1.0)}), (std::vector<std::string>{"b", "a"}));
}

TEST(Ranking, CallsAStaticFleetByItsSize) {
  EXPECT_EQ(labels({result_of("static", 4, 0.5, 1.0), result_of("static", 2, 0.4, 1.0)}),
            (std::vector<std::string>{"static 4", "static 2"}));
}

TEST(Ranking, TellsRunsOfOnePolicyApartByWhatDiffers) {
  auto other_router = result_of("kpa", 2, 0.4, 1.0);
  other_router.router = "random";
  EXPECT_EQ(labels({result_of("kpa", 2, 0.5, 1.0), other_router}),
            (std::vector<std::string>{"kpa (kv)", "kpa (random)"}));
  EXPECT_EQ(labels({result_of("kpa", 2, 0.5, 1.0), result_of("kpa", 3, 0.4, 1.0)}),
            (std::vector<std::string>{"kpa from 2", "kpa from 3"}));
}

TEST(Ranking, GivesEveryRunALabelOfItsOwnThoughAllIsEqual) {
  const auto same = result_of("kpa", 2, 0.5, 1.0);
  EXPECT_EQ(labels({same, same, same}), (std::vector<std::string>{"kpa from 2", "kpa from 2 #2", "kpa from 2 #3"}));
}

TEST(Ranking, IsTotalThoughAFigureIsMissing) {
  EXPECT_EQ(labels({result_of("lost", 1, NAN, 1.0), result_of("b", 1, 0.1, 9.0), result_of("c", 1, 0.9, 8.0)}),
            (std::vector<std::string>{"c", "b", "lost"}));
}

TEST(Headline, NamesTheBestPolicyAndThePriceOfAStaticFleetThatDoesAsWell) {
  EXPECT_EQ(headline(testing::sample_report(1)),
            "kpa has an SLO attainment of 96.9 % over 10,000 requests (TTFT 2 s and ITL 50 ms) at 5.00 GPU-hours; the "
            "cheapest static fleet with at least the same SLO attainment, 7 replicas, needs 7.00 GPU-hours (+40 %).");
}

TEST(Headline, SaysThatNoStaticFleetDoesAsWell) {
  Report report;
  report.results = {result_of("kpa", 2, 0.9, 5.0), result_of("static", 1, 0.5, 2.0)};
  EXPECT_EQ(
      headline(report),
      "kpa has an SLO attainment of 90.0 % over 100 requests (TTFT 2 s and ITL 50 ms) at 5.00 GPU-hours; no static "
      "fleet that was tried reaches that: the best, 1 replica, has 50.0 % at 2.00 GPU-hours.");
}

TEST(Headline, HoldsAStaticFleetThatWinsAgainstTheBestPolicyThatScales) {
  Report report;
  report.results = {result_of("kpa", 2, 0.8, 5.0), result_of("static", 9, 1.0, 10.0)};
  EXPECT_EQ(
      headline(report),
      "static 9 has an SLO attainment of 100.0 % over 100 requests (TTFT 2 s and ITL 50 ms) at 10.0 GPU-hours; the "
      "best policy that scales, kpa, has 80.0 % at 5.00 GPU-hours (−50 %).");
}

TEST(Headline, MakesNoComparisonWhenThereIsNothingToCompare) {
  Report report;
  EXPECT_EQ(headline(report), "No policy was run.");
  report.results = {result_of("kpa", 2, 0.8, 5.0)};
  EXPECT_EQ(headline(report),
            "kpa has an SLO attainment of 80.0 % over 100 requests (TTFT 2 s and ITL 50 ms) at 5.00 GPU-hours.");
  report.results.front().requests = 0;
  EXPECT_EQ(headline(report), "The workload has no requests: there is nothing to compare.");
}

}  // namespace
}  // namespace penstock::report
