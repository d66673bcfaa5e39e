#include "report/csv.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "report/report_testing.h"

namespace penstock::report {
namespace {

// A reader by RFC 4180: rows of cells.
std::vector<std::vector<std::string>> cells_of(const std::string& csv) {
  std::vector<std::vector<std::string>> rows{{""}};
  bool quoted = false;
  for (std::size_t i = 0; i < csv.size(); ++i) {
    std::string& cell = rows.back().back();
    if (quoted) {
      if (csv[i] != '"') {
        cell += csv[i];
      } else if (i + 1 < csv.size() && csv[i + 1] == '"') {
        cell += csv[++i];
      } else {
        quoted = false;
      }
    } else if (csv[i] == '"') {
      quoted = true;
    } else if (csv[i] == ',') {
      rows.back().emplace_back();
    } else if (csv[i] == '\r') {
      EXPECT_EQ(csv.at(++i), '\n');
      rows.push_back({""});
    } else {
      cell += csv[i];
    }
  }
  rows.pop_back();
  return rows;
}

std::size_t column(const std::vector<std::vector<std::string>>& rows, const std::string& name) {
  return static_cast<std::size_t>(std::find(rows[0].begin(), rows[0].end(), name) - rows[0].begin());
}

TEST(Csv, HasAHeaderAndOneRowForEachRunBestFirst) {
  const auto rows = cells_of(to_csv(testing::sample_report(1)));
  ASSERT_EQ(rows.size(), 1U + 4U + 8U);
  EXPECT_EQ(rows[1][column(rows, "policy")], "kpa");
  EXPECT_EQ(rows[1][column(rows, "set")], "policy");
  EXPECT_EQ(rows[5][column(rows, "set")], "frontier");
  EXPECT_EQ(rows[5][column(rows, "replicas")], "7");
}

TEST(Csv, HasAsManyCellsInEachRowAsInTheHeader) {
  const auto rows = cells_of(to_csv(testing::hostile_report()));
  for (const auto& row : rows) EXPECT_EQ(row.size(), rows[0].size());
}

TEST(Csv, QuotesCommasQuotesAndLineEnds) {
  Report report = testing::sample_report(1);
  report.results = {report.results[0]};
  report.results[0].policy = "a,\"b\"\r\nc";
  report.frontier.clear();
  const std::string csv = to_csv(report);
  EXPECT_NE(csv.find("policy,\"a,\"\"b\"\"\r\nc\",kv,"), std::string::npos);
  const auto rows = cells_of(csv);
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[1][column(rows, "policy")], "a,\"b\"\r\nc");
}

TEST(Csv, EndsEveryRowWithCarriageReturnAndLineFeed) {
  const std::string csv = to_csv(testing::sample_report(1));
  EXPECT_TRUE(csv.ends_with("\r\n"));
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\r'), std::count(csv.begin(), csv.end(), '\n'));
}

TEST(Csv, LeavesWhatWasNotMeasuredEmpty) {
  Report report = testing::sample_report(1);
  for (auto& result : report.results) {
    result.ttft_ms = {};
    result.cost = NAN;
  }
  const auto rows = cells_of(to_csv(report));
  EXPECT_EQ(rows[1][column(rows, "ttft_p95_ms")], "");
  EXPECT_EQ(rows[1][column(rows, "cost")], "");
  EXPECT_EQ(rows[1][column(rows, "itl_p95_ms")], "46.875");
}

TEST(Csv, AnEmptyReportIsTheHeaderOnly) { EXPECT_EQ(cells_of(to_csv(Report{})).size(), 1U); }

}  // namespace
}  // namespace penstock::report
