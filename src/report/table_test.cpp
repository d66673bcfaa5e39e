#include "report/table.h"

#include <gtest/gtest.h>

#include <chrono>
#include <sstream>

#include "report/format.h"
#include "report/ranking.h"
#include "report/report_testing.h"

namespace penstock::report {
namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::size_t line_with(const std::string& text, const std::string& start) {
  const auto lines = lines_of(text);
  for (std::size_t i = 0; i < lines.size(); ++i)
    if (lines[i].starts_with(start)) return i;
  return lines.size();
}

TEST(Table, IsNoWiderThan140Columns) {
  Report report = testing::sample_report(12);
  report.info.notes = {std::string(70, 'a') + " " + std::string(75, 'b')};
  for (auto& result : report.results) {
    result.policy = "llmd-saturation-v2xx";
    result.replicas = 12;
    result.preemptions = 123456;
    result.failed = 1234567;
  }
  for (const std::string& line : lines_of(render_table(report, {}))) EXPECT_LE(display_width(line), 140U) << line;
}

TEST(Table, TheLimitOfTheWholeAnswerIsNamedWhereThereIsOne) {
  Report report = testing::targeted_report();
  EXPECT_EQ(render_table(report, {}).find("e2e"), std::string::npos);
  report.info.slo.e2e = std::chrono::seconds{30};
  for (auto& result : report.results) result.targets[1].target.e2e = std::chrono::seconds{5};
  const std::string text = render_table(report, {});
  EXPECT_TRUE(replayed_text(report.info, false).ends_with("; SLO: TTFT 2 s, ITL 50 ms and e2e 30 s per request"));
  EXPECT_NE(text.find("chat     kpa       500 ms  40 ms    5 s     4,000"), std::string::npos) << text;
  EXPECT_NE(text.find("general  kpa          2 s  50 ms      –     6,000"), std::string::npos) << text;
  for (auto& result : report.results) result.targets.resize(1);
  EXPECT_NE(headline(report).find("(TTFT 2 s, ITL 50 ms and e2e 30 s)"), std::string::npos) << headline(report);
}

TEST(Table, NamesReplicasAsleepAndTheirPrice) {
  Report report = testing::sample_report(12);
  EXPECT_EQ(render_table(report, {}).find("asleep"), std::string::npos);
  report.info.pools[0].wake_time = std::chrono::seconds{8};
  report.results[0].mean_asleep = 3.5;
  const std::string text = render_table(report, {});
  EXPECT_NE(text.find("+3.50 asleep"), std::string::npos) << text;
  EXPECT_NE(text.find("wake time 8 s, asleep at"), std::string::npos) << text;
}

TEST(Table, NamesRoleSwitchesAndTheirTime) {
  Report report = testing::sample_report(12);
  EXPECT_EQ(render_table(report, {}).find("switch"), std::string::npos);
  report.info.pools[0].switch_time = std::chrono::seconds{5};
  report.results[0].role_switches = 3;
  const std::string text = render_table(report, {});
  EXPECT_NE(text.find(", 3 switched"), std::string::npos) << text;
  EXPECT_NE(text.find("role switch 5 s; "), std::string::npos) << text;
}

TEST(Table, PutsTheBestPolicyFirst) {
  const std::string text = render_table(testing::sample_report(12), {});
  EXPECT_LT(line_with(text, "kpa "), line_with(text, "hpa-rate "));
  EXPECT_LT(line_with(text, "hpa-rate "), line_with(text, "static 2 "));
}

TEST(Table, ShowsTargetsOnlyWhereThereAreSeveral) {
  Report report = testing::targeted_report();
  EXPECT_NE(render_table(report, {}).find("nightly"), std::string::npos);
  for (auto& result : report.results) result.targets.resize(1);
  EXPECT_EQ(render_table(report, {}), render_table(testing::sample_report(12), {}));
}

TEST(Table, ReplacesControlCharactersInSegments) {
  Report report = testing::targeted_report();
  for (auto& result : report.results) result.targets[1].name = testing::kHostileName;
  const std::string text = render_table(report, {});
  EXPECT_EQ(text.find('\033'), std::string::npos);
  for (const std::string& line : lines_of(text)) EXPECT_LE(display_width(line), 140U) << line;
}

TEST(Table, HasNoEscapesWithoutColour) {
  EXPECT_EQ(render_table(testing::sample_report(12), {}).find('\033'), std::string::npos);
}

TEST(Table, HasTheSameTextWithColour) {
  std::string text = render_table(testing::sample_report(12), {.colour = true});
  ASSERT_NE(text.find("\033[1m"), std::string::npos);
  for (std::size_t at = text.find('\033'); at != std::string::npos; at = text.find('\033'))
    text.erase(at, text.find('m', at) + 1 - at);
  EXPECT_EQ(text, render_table(testing::sample_report(12), {}));
}

TEST(Table, ReplacesControlCharactersInNames) {
  const std::string text = render_table(testing::hostile_report(), {});
  EXPECT_EQ(text.find('\033'), std::string::npos);
  EXPECT_EQ(text.find('\xff'), std::string::npos);
  EXPECT_NE(text.find("?[31m?"), std::string::npos);
}

TEST(Table, ReplacesLineBreaksInNames) {
  Report report = testing::sample_report(12);
  for (auto& result : report.results) result.policy = "kpa\n\nkpa has an SLO attainment of 100 %";
  report.info.workload = "a\rb";
  const std::string text = render_table(report, {});
  EXPECT_EQ(line_with(text, "kpa has an SLO attainment of 100"), lines_of(text).size());
  EXPECT_EQ(text.find('\r'), std::string::npos);
}

TEST(Table, CutsLongNames) {
  Report report = testing::sample_report(12);
  report.results[0].policy = std::string(5000, 'x');
  for (const std::string& line : lines_of(render_table(report, {}))) EXPECT_LE(display_width(line), 140U);
}

TEST(Table, ShowsADashForUnmeasuredFigures) {
  Report report = testing::sample_report(12);
  report.results = {report.results[0]};
  report.results[0].ttft_ms = {};
  report.frontier.clear();
  EXPECT_NE(render_table(report, {}).find("–"), std::string::npos);
}

TEST(Table, CountsWhatFailedAndWhatWasLeftOut) {
  const std::string text = render_table(testing::sample_report(12), {});
  EXPECT_NE(text.find("hpa-rate: failed: 20 prompt_exceeds_kv_cache, 1 unfinished\n"), std::string::npos);
  EXPECT_NE(text.find("skipped: 3 invalid rows of the trace\n"), std::string::npos);
  EXPECT_NE(text.find("dynamo-latency left out: it needs a prefill and a decode pool\n"), std::string::npos);
}

TEST(Table, StatesTheScoredTimeTheSpreadOfCopiesAndTheAttainmentInBursts) {
  Report report = testing::sample_report(4);
  EXPECT_EQ(render_table(report, {}).find("bursts"), std::string::npos);
  EXPECT_EQ(render_table(report, {}).find("scored from"), std::string::npos);
  report.info.rate_scale_spread = std::chrono::minutes{10};
  report.info.score_from = std::chrono::minutes{7};
  report.results[1].bursts = {4000, 3000};
  const std::string table = render_table(report, {});
  EXPECT_NE(table.find("x1.5 the recorded rate (copies moved by up to 10 min), scored from 7 min"), std::string::npos);
  EXPECT_NE(table.find("SLO attainment of the 4,000 requests in bursts"), std::string::npos);
  EXPECT_NE(table.find("hpa-rate 75.0 %"), std::string::npos);
}

TEST(Table, ReportsAnEmptyRun) {
  const std::string text = render_table(Report{}, {});
  EXPECT_TRUE(text.ends_with("\nNo policy was run.\n"));
}

}  // namespace
}  // namespace penstock::report
