// The table and the CSV of a report made by hand, as files that are reviewed as a diff. PENSTOCK_UPDATE_GOLDEN=1
// rewrites them.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "core/source_root_testing.h"
#include "report/csv.h"
#include "report/format.h"
#include "report/report_testing.h"
#include "report/table.h"

namespace penstock::report {
namespace {

void expect_golden(const std::string& name, const std::string& text) {
  const auto path = core::testing::source_root() / "src/report/golden" / name;
  if (std::getenv("PENSTOCK_UPDATE_GOLDEN") != nullptr) {
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << text;
  }
  std::ifstream file(path, std::ios::binary);
  const std::string golden{std::istreambuf_iterator<char>(file), {}};
  EXPECT_EQ(text, golden) << "differs from " << path << "; PENSTOCK_UPDATE_GOLDEN=1 rewrites it";
}

TEST(Golden, TableLooksAsReviewed) { expect_golden("table.txt", render_table(testing::sample_report(120), {})); }
TEST(Golden, TableOfTargetsLooksAsReviewed) {
  expect_golden("table_targets.txt", render_table(testing::targeted_report(), {.colour = true}));
}
TEST(Golden, TableInColourLooksAsReviewed) {
  expect_golden("table_colour.txt", render_table(testing::sample_report(120), {.colour = true}));
}
TEST(Golden, NarrowTableLooksAsReviewed) {
  const std::string table = render_table(testing::sample_report(120), {.width = 80});
  expect_golden("table_narrow.txt", table);
  for (std::size_t begin = 0; begin < table.size(); begin = table.find('\n', begin) + 1)
    EXPECT_LE(display_width(table.substr(begin, table.find('\n', begin) - begin)), 80U);
}
TEST(Golden, CsvLooksAsReviewed) { expect_golden("report.csv", to_csv(testing::sample_report(120))); }

}  // namespace
}  // namespace penstock::report
