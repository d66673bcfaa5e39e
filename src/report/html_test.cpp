#include "report/html.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "report/assets.h"
#include "report/report_testing.h"

namespace penstock::report {
namespace {

std::string without(std::string text, std::string_view part) {
  const std::size_t at = text.find(part);
  EXPECT_NE(at, std::string::npos);
  return at == std::string::npos ? text : text.erase(at, part.size());
}

// The page but for the chart library, which holds strings of its own about the network.
std::string own_part(const Report& report) { return without(to_html(report), assets::plotly()); }

std::string between(const std::string& text, std::string_view begin, std::string_view end) {
  const std::size_t from = text.find(begin) + begin.size();
  return text.substr(from, text.find(end, from) - from);
}

std::size_t count_of(std::string_view text, std::string_view part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string_view::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

nlohmann::json data_of(const Report& report) {
  return nlohmann::json::parse(between(to_html(report), "id=\"report-data\">", "</script>"));
}

TEST(Html, NeedsNothingFromTheNetworkOrTheDisk) {
  const std::string page = own_part(testing::sample_report(60));
  for (const char* reference : {"http:", "https:", "//cdn", "@import", "url(", " src=", "<link", "<iframe", "fetch("})
    EXPECT_EQ(page.find(reference), std::string::npos) << reference;
  for (std::size_t at = page.find("href=\""); at != std::string::npos; at = page.find("href=\"", at + 1))
    EXPECT_EQ(page[at + 6], '#');
}

TEST(Html, LetsNoScriptRunButItsOwn) {
  const std::string page = own_part(testing::sample_report(1));
  const std::string policy = between(page, "http-equiv=\"Content-Security-Policy\" content=\"", "\"");
  EXPECT_NE(policy.find("default-src 'none'"), std::string::npos);
  const std::string scripts = between(policy, "script-src ", ";");
  EXPECT_EQ(scripts.find("unsafe"), std::string::npos);
  EXPECT_LT(page.find("Content-Security-Policy"), page.find("<script"));  // it holds for what follows it only
}

TEST(Html, KeepsHostileNamesInTheirPlace) {
  const std::string page = own_part(testing::hostile_report()), calm = own_part(testing::sample_report(60));
  for (const char* tag : {"<script", "</script", "<img", "<b>", "<!--"})
    EXPECT_EQ(count_of(page, tag), count_of(calm, tag)) << tag;
  EXPECT_EQ(page.find('\x1b'), std::string::npos);
  EXPECT_EQ(page.find('\xff'), std::string::npos);
}

TEST(Html, DoesNotExpandPlaceholdersInNames) {
  Report report = testing::sample_report(1);
  report.info.workload = "{{plotly}}{{data}}";
  EXPECT_EQ(count_of(to_html(report), "id=\"report-data\""), 1U);
  EXPECT_NE(to_html(report).find("<title>Penstock replay: {{plotly}}{{data}}</title>"), std::string::npos);
}

TEST(Html, CarriesHostileNamesUnchangedAsData) {
  const nlohmann::json data = data_of(testing::hostile_report());
  const std::string name = data["workload"]["name"];
  EXPECT_TRUE(name.starts_with("</script><img src=x onerror=alert(1)>{{data}}\x1b[31m\xef\xbf\xbd%{x}<b>&lt;"));
}

TEST(Html, HoldsEqualBytesForEqualRuns) {
  const Report report = testing::sample_report(60);
  Report again = report;
  for (auto& result : again.results) result.simulated_requests_per_s *= 7.0;
  for (auto& result : again.frontier) result.simulated_requests_per_s *= 7.0;
  EXPECT_TRUE(to_html(report) == to_html(again));  // not EXPECT_EQ: a difference would print megabytes
}

TEST(Html, LeavesNoPartOfTheTemplateUnfilled) {
  const std::string page = own_part(testing::sample_report(60));
  for (const char* name :
       {"{{title}}", "{{headline}}", "{{table}}", "{{style}}", "{{data}}", "{{plotly}}", "{{scripts}}"})
    EXPECT_EQ(page.find(name), std::string::npos) << name;
}

TEST(Html, ShowsTheHeadlineAndTheTableWithoutScripts) {
  const std::string page = own_part(testing::sample_report(60));
  EXPECT_NE(page.find("<h1 id=\"headline\">kpa has an SLO attainment of 96.9 %"), std::string::npos);
  const std::string table = between(page, "<noscript>", "</noscript>");
  EXPECT_NE(table.find("hpa-rate"), std::string::npos);
}

TEST(Html, StaysSmallHoweverLongTheRun) {
  Report report = testing::sample_report(1);
  decision::RunResult& longest = report.results.front();
  for (std::uint64_t second = 1; second <= 50000; ++second) {
    decision::SeriesPoint point;
    point.at = testing::at_second(second);
    longest.series.push_back(point);
    decision::DecisionRecord& record = longest.decisions.emplace_back();
    record.at = point.at;
    record.pool = "default";
    record.current = 1;
    record.target = 2;
    record.reason = decision::Reason::kPanic;
    record.evidence = {{"request_rate", 4.2, "1/s"}};
  }
  const nlohmann::json data = data_of(report);
  for (const auto& result : data["results"]) {
    EXPECT_LE(result["series"]["at_s"].size(), 400U);
    EXPECT_LE(result["decisions"].size(), 2000U);
  }
  const auto& last = data["results"].back();
  EXPECT_EQ(last["decisions"].size(), 2000U);
  EXPECT_EQ(last["decisions_total"], 50000);
  EXPECT_LT(own_part(report).size(), 1'000'000U);
}

TEST(Html, NamesTheLicenceOfTheChartLibrary) {
  EXPECT_NE(assets::plotly().substr(0, 200).find("MIT"), std::string_view::npos);
}

}  // namespace
}  // namespace penstock::report
