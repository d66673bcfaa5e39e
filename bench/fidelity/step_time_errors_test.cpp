#include "fidelity/step_time_errors.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>

#include "fidelity/silicon_testing.h"

namespace penstock::fidelity {
namespace {

std::vector<SiliconRow> dense_rows(bool held_out) {
  std::vector<SiliconRow> rows;
  const auto path = testing::silicon_csv();
  if (!path) return rows;
  const auto all = load_silicon(*path).value();
  for (const SiliconRow& row : all)
    if (row.is_aggregated() && is_covered(row) && !row.spec.model->is_mixture() && in_calibration_half(row) != held_out)
      rows.push_back(row);
  return rows;
}

// A file of its own that is gone with the test.
class File {
 public:
  explicit File(const std::string& text)
      : path_{std::filesystem::path{::testing::TempDir()} /
              (std::string{"penstock_"} + ::testing::UnitTest::GetInstance()->current_test_info()->name() + ".csv")} {
    std::ofstream{path_} << text;
  }
  ~File() { std::filesystem::remove(path_); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  [[nodiscard]] std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

TEST(Fidelity, TpotOfDenseModelsIsWithinFivePercentOnTheHalfThatWasNotFitted) {
  const auto rows = dense_rows(true);
  if (rows.empty()) return;
  const FidelityFigures figures = aggregated_fidelity(rows);
  EXPECT_GT(figures.tpot.rows, 300U);
  EXPECT_LT(figures.tpot.median, 0.035);
  EXPECT_LT(figures.tpot.p90, 0.135);
  EXPECT_LT(figures.throughput.median, 0.035);
  EXPECT_LT(figures.throughput.p90, 0.12);
  EXPECT_LT(figures.ttft.median, 0.15);
}

TEST(Fidelity, MixturesRanksAndDecodeWorkersThatWereNotFittedAreWithinTheirErrors) {
  const auto path = testing::silicon_csv();
  if (!path) return;
  std::vector<SiliconRow> mixtures, ranks, held_out;
  const auto rows = load_silicon(*path).value();
  for (const SiliconRow& row : rows) {
    if (!is_covered(row) || in_calibration_half(row)) continue;
    held_out.push_back(row);
    if (row.spec.model->is_mixture()) mixtures.push_back(row);
    if (row.spec.attention_ranks > 1) ranks.push_back(row);
  }
  EXPECT_LT(aggregated_fidelity(mixtures).tpot.median, 0.06);
  EXPECT_LT(aggregated_fidelity(mixtures).tpot.p90, 0.26);
  EXPECT_GT(aggregated_fidelity(ranks).tpot.rows, 80U);
  EXPECT_LT(aggregated_fidelity(ranks).tpot.median, 0.09);
  EXPECT_EQ(decode_fidelity(held_out).rows, 50U);
  EXPECT_LT(decode_fidelity(held_out).median, 0.15);
}

TEST(Fidelity, AnEngineOfUnknownReleaseIsEstimatedAsWell) {
  auto rows = dense_rows(true);
  if (rows.empty()) return;
  for (SiliconRow& row : rows) row.spec.release.clear();
  EXPECT_LT(aggregated_fidelity(rows).tpot.median, 0.035);
  EXPECT_LT(aggregated_fidelity(rows).tpot.p90, 0.135);
}

TEST(Fidelity, TpotOfUnseenCombinationsIsWithinTenPercent) {
  auto rows = dense_rows(true);
  if (rows.empty()) return;
  const auto fitted = dense_rows(false);
  rows.insert(rows.end(), fitted.begin(), fitted.end());
  // Combinations that other rows surround; each takes a fit.
  for (const char* model : {"llama-3.1-70b", "qwen3-32b"}) {
    std::vector<SiliconRow> others, left_out;
    for (const SiliconRow& row : rows) {
      const bool out = row.spec.model->name == model && row.spec.tensor_parallel == 4;
      if (out) left_out.push_back(row);
      if (!out && in_calibration_half(row)) others.push_back(row);
    }
    const Calibration calibration = calibrate(others);
    std::vector<double> errors;
    for (const SiliconRow& row : left_out) {
      const engine::Roofline roofline{row.spec, efficiency_by(calibration, row.spec)};
      errors.push_back(std::abs(aggregated_serving(roofline, calibration_point(row).at).tpot_ms / row.tpot_ms - 1.0));
    }
    std::sort(errors.begin(), errors.end());
    EXPECT_LT(errors[errors.size() / 2], 0.10) << model;
  }
}

TEST(Fidelity, RowsThatTheModelMadeHaveNoErrorWhenTheyAreUnseen) {
  const auto rows = read_silicon(testing::made_up_csv({0.62, 0.45, 80.0, 12.0, 0.35}), "made-up.csv").value();
  const UnseenFidelity unseen = unseen_fidelity(rows);
  EXPECT_EQ(unseen.combinations.size(), 8U);
  EXPECT_EQ(unseen.total.rows, rows.size());
  EXPECT_LT(unseen.total.median, 0.02);
}

TEST(Fidelity, TheReportNamesEveryPartAndWhatIsNotCovered) {
  std::string csv = testing::made_up_csv({0.62, 0.45, 80.0, 12.0, 0.35});
  csv +=
      "vllm,1,acme/Novel-9B,h100_sxm,fp8,agg,10,10,1,1,1,1,1,1,,,,,,,1,1\n"
      "sglang,,deepseek-ai/DeepSeek-R1,gb200,fp8,agg,1024,1024,576,72,1,1,72,1,,,,,,,7500,32\n"
      "vllm,1,meta-llama/Llama-3.1-405B,h100_sxm,fp8,agg,10,10,1,1,1,1,1,1,,,,,,,1,1\n"
      "vllm,1,Qwen/Qwen3-32B,h100_sxm,fp8,disagg,4000,500,,,,,,,1,2,1,16,3,4,300,9\n";
  const File file{csv};
  const auto report = silicon_fidelity_markdown(file.path());
  ASSERT_TRUE(report) << report.error().message();
  for (const char* part :
       {"## Dense models, aggregated", "| vllm h100_sxm fp8 |", "| **all** |", "the fitted half",
        "## Mixtures of experts", "## Combinations that the fit has not seen", "qwen3-32b h200_sxm x4",
        "1 points; 1 state the batch", "| the half that was not fitted |", "### Repeated points",
        "1 points of models that the catalogue lacks, 1 aggregated points", "1 with tensor parallelism that does not"})
    EXPECT_NE(report->find(part), std::string::npos) << part << "\n" << *report;
  EXPECT_EQ(report->find("nan"), std::string::npos);
}

TEST(Fidelity, TheTableIsTextThatTheEngineIncludes) {
  const File file{testing::made_up_csv({0.62, 0.45, 80.0, 12.0, 0.35})};
  const auto table = calibration_table(file.path());
  ASSERT_TRUE(table) << table.error().message();
  EXPECT_TRUE(table->starts_with("    {\"dense\", {")) << *table;
  EXPECT_TRUE(table->ends_with("}},\n"));
}

TEST(Fidelity, AFileThatIsNotThereIsAnError) {
  EXPECT_EQ(silicon_fidelity_markdown("no/such.csv").error().message(),
            "no/such.csv: cannot be opened: No such file or directory");
  EXPECT_FALSE(calibration_table("no/such.csv"));
}

}  // namespace
}  // namespace penstock::fidelity
