#include "report/cut.h"

#include <gtest/gtest.h>

#include "report/html.h"
#include "report/report_testing.h"

namespace penstock::report {
namespace {

using testing::at_second;

TEST(Cut, IntervalsCoverTheRunWithoutGapOrOverlap) {
  const auto result = testing::sample_report(120).results.front();
  const auto intervals = intervals_of(result, std::chrono::minutes{25});
  ASSERT_EQ(intervals.size(), 3U);
  EXPECT_EQ(intervals[0].from, core::kStart);
  EXPECT_EQ(intervals[0].to, intervals[1].from);
  EXPECT_EQ(intervals[1].to, intervals[2].from);
  EXPECT_EQ(intervals[2].to, at_second(3600));
  const auto with_rest = intervals_of(result, std::chrono::seconds{1750});  // 100 s remain
  ASSERT_EQ(with_rest.size(), 2U);
  EXPECT_EQ(with_rest[1].to, at_second(3600));
  EXPECT_TRUE(intervals_of(decision::RunResult{}, std::chrono::hours{1}).empty());
}

TEST(Cut, PartsAddUpToTheWhole) {
  const Report whole = testing::sample_report(120);
  const auto& result = whole.results.front();
  double gpu_hours = 0.0, cost = 0.0;
  std::uint64_t actions = 0, arrived = 0, all_arrived = 0;
  std::size_t points = 0;
  for (const Interval& interval : intervals_of(result, std::chrono::minutes{7})) {
    const auto part = cut(whole.info, result, interval).results.front();
    gpu_hours += part.gpu_hours;
    cost += part.cost;
    actions += part.scaling_actions;
    arrived += part.requests;
    points += part.series.size();
    EXPECT_GE(part.slo_attainment, 0.0);
    EXPECT_LE(part.slo_attainment, 1.0);
  }
  for (const auto& point : result.series) all_arrived += point.arrived;
  EXPECT_NEAR(gpu_hours, result.gpu_hours, 1e-9);
  EXPECT_NEAR(cost, result.cost, 1e-9);
  EXPECT_EQ(actions, result.decisions.size());
  EXPECT_EQ(arrived, all_arrived);
  EXPECT_EQ(points, result.series.size());
}

TEST(Cut, GpuHoursOfAScoredRunAreThoseSinceTheBeginOfTheScores) {
  const Report whole = testing::sample_report(120);
  Report scored = whole;
  scored.info.score_from = std::chrono::minutes{30};
  auto& result = scored.results.front();
  const Interval before{core::kStart, at_second(1800)}, after{at_second(1800), at_second(3600)};
  const auto all = cut(whole.info, whole.results.front(), after).results.front();
  result.gpu_hours = all.gpu_hours;
  result.cost = all.cost;
  const auto part = cut(scored.info, result, after).results.front();
  EXPECT_NEAR(part.gpu_hours, all.gpu_hours, 1e-9);
  EXPECT_NEAR(part.cost, all.cost, 1e-9);
  EXPECT_NEAR(cut(scored.info, result, before).results.front().gpu_hours,
              cut(whole.info, whole.results.front(), before).results.front().gpu_hours, 1e-9);
}

TEST(Cut, AttainmentIsThatOfJudgedRequests) {
  Report whole = testing::sample_report(120);
  for (auto& point : whole.results.front().series) {
    point.arrived = 20;
    point.judged = 16;
    point.met_slo = 12;
  }
  const auto part = cut(whole.info, whole.results.front(), {core::kStart, at_second(1800)}).results.front();
  EXPECT_EQ(part.slo_attainment, 0.75);
}

TEST(Cut, ReplicasAsleepBearTheirShareOfTheCost) {
  Report whole = testing::sample_report(120);
  auto& result = whole.results.front();
  for (std::size_t i = 0; i < result.series.size(); ++i) {
    auto& point = result.series[i];
    point.starting = point.draining = 0;
    point.ready = 2;
    point.asleep = i < 60 ? 0 : 4;
    point.asleep_paid = 0.5 * point.asleep;
  }
  const auto second = cut(whole.info, result, {at_second(1800), at_second(3600)}).results.front();
  EXPECT_NEAR(second.gpu_hours, result.gpu_hours * 2.0 / 3.0, 1e-9);
  EXPECT_NEAR(second.mean_replicas, 2.0, 1e-9);
  EXPECT_NEAR(second.mean_asleep, 4.0, 1e-9);
}

TEST(Cut, KeepsTheDecisions) {
  const Report whole = testing::sample_report(12);
  const auto result = testing::diagnosed_result(120);
  const auto part = cut(whole.info, result, {at_second(600), at_second(1200)}).results.front();
  ASSERT_FALSE(part.decisions.empty());
  EXPECT_EQ(part.decisions.front().cause, decision::Cause::kQueue);
  EXPECT_EQ(part.decisions.front().phase, decision::RolloutPhase::kGuardrails);
  EXPECT_TRUE(part.decisions.front().next_phase_target);
  EXPECT_TRUE(part.decisions.front().forecast);
  ASSERT_EQ(part.forecasts.size(), 20U);
  EXPECT_EQ(part.forecasts.back().at, at_second(600));
  EXPECT_EQ(part.forecasts.back().expected.requests_per_s, result.forecasts[39].expected.requests_per_s);
}

TEST(Cut, ItsPageIsWholeAndSaysWhichPartItShows) {
  const Report whole = testing::sample_report(120);
  const Report part = cut(whole.info, whole.results.front(), {at_second(1200), at_second(2400)});
  EXPECT_NE(part.info.workload.find("(20m to 40m)"), std::string::npos);
  EXPECT_EQ(part.info.duration, std::chrono::minutes{20});
  EXPECT_EQ(part.results.front().series.front().at, at_second(30));
  EXPECT_EQ(part.results.front().series.back().at, at_second(1200));
  const std::string page = to_html(part);
  EXPECT_TRUE(page.starts_with("<!"));
  EXPECT_NE(page.find("20m to 40m of the run"), std::string::npos);
}

}  // namespace
}  // namespace penstock::report
