#include "fidelity/calibration.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "fidelity/silicon_testing.h"
#include "fidelity/step_time_errors.h"

namespace penstock::fidelity {
namespace {

const engine::RooflineEfficiency kTruth{0.62, 0.45, 80.0, 12.0, 0.35};

std::vector<SiliconRow> made_up_rows() { return read_silicon(testing::made_up_csv(kTruth), "made-up.csv").value(); }

std::vector<CalibrationPoint> points_of(const std::vector<SiliconRow>& rows) {
  std::vector<CalibrationPoint> points;
  for (const SiliconRow& row : rows)
    if (is_covered(row)) points.push_back(calibration_point(row));
  return points;
}

double worst_error(const Calibration& calibration, const std::vector<CalibrationPoint>& points) {
  double worst = 0.0;
  for (const CalibrationPoint& point : points) {
    const engine::Roofline roofline{point.spec, efficiency_by(calibration, point.spec)};
    worst = std::max(worst, std::abs(aggregated_serving(roofline, point.at).tpot_ms / point.tpot_ms - 1.0));
  }
  return worst;
}

TEST(Calibration, FindsTheFiguresThatMadeThePoints) {
  const auto points = points_of(made_up_rows());
  const Calibration calibration = fit_calibration(points);
  EXPECT_LT(worst_error(calibration, points), 0.01);
  for (const CalibrationPoint& point : points) {
    const auto figures = efficiency_by(calibration, point.spec);
    EXPECT_NEAR(figures.bandwidth, kTruth.bandwidth, 0.03);
    EXPECT_NEAR(figures.compute, kTruth.compute, 0.03);
    EXPECT_NEAR(figures.layer_overhead_us, kTruth.layer_overhead_us, 6.0);
  }
}

TEST(Calibration, OutliersHaveLittleEffect) {
  auto points = points_of(made_up_rows());
  const auto clean = points;
  for (std::size_t i = 0; i < points.size(); i += 12) points[i].tpot_ms *= 3.0;
  EXPECT_LT(worst_error(fit_calibration(points), clean), 0.08);
}

TEST(Calibration, TheSamePointsGiveTheSameBytes) {
  const auto points = points_of(made_up_rows());
  EXPECT_EQ(render_calibration(fit_calibration(points)), render_calibration(fit_calibration(points)));
}

TEST(Calibration, EffectsWithoutPointsAreLeftOut) {
  const Calibration calibration = fit_calibration(points_of(made_up_rows()));
  EXPECT_TRUE(std::is_sorted(calibration.begin(), calibration.end(),
                             [](const FittedEffect& a, const FittedEffect& b) { return a.effect < b.effect; }));
  EXPECT_EQ(calibration.front().effect, "dense");
  for (const FittedEffect& each : calibration) EXPECT_TRUE(each.effect.starts_with("dense")) << each.effect;
  EXPECT_TRUE(fit_calibration({}).empty());
}

TEST(Calibration, AnEffectOfFewPointsIsLeftOut) {
  auto points = points_of(made_up_rows());
  for (std::size_t i = 0; i < 4; ++i) points[i].spec.release = "rare";
  const auto has = [](const Calibration& calibration, std::string_view effect) {
    return std::any_of(calibration.begin(), calibration.end(), [&](const auto& row) { return row.effect == effect; });
  };
  EXPECT_FALSE(has(fit_calibration(points), "dense/vllm/rare"));
  points[4].spec.release = "rare";
  EXPECT_TRUE(has(fit_calibration(points), "dense/vllm/rare"));
}

TEST(Calibration, ADecodeWorkerIsFittedToItsDecodeStep) {
  auto points = points_of(made_up_rows());
  for (CalibrationPoint& point : points) {
    point.decode_only = true;
    point.tpot_ms = decode_serving(engine::Roofline{point.spec, kTruth}, point.at).tpot_ms;
  }
  const Calibration calibration = fit_calibration(points);
  for (const CalibrationPoint& point : points)
    EXPECT_NEAR(estimated_tpot_ms(engine::Roofline{point.spec, efficiency_by(calibration, point.spec)}, point),
                point.tpot_ms, 0.02 * point.tpot_ms);
}

TEST(Calibration, TheDeclaredHalfIsAboutAHalfAndKeepsRepeatsTogether) {
  const auto rows = made_up_rows();
  const auto chosen = std::count_if(rows.begin(), rows.end(), in_calibration_half);
  EXPECT_GT(chosen, static_cast<std::ptrdiff_t>(rows.size() / 3));
  EXPECT_LT(chosen, static_cast<std::ptrdiff_t>(rows.size() * 2 / 3));
  SiliconRow again = rows.front();
  again.tpot_ms *= 2.0;
  again.line = 999;
  EXPECT_EQ(in_calibration_half(again), in_calibration_half(rows.front()));
}

TEST(Calibration, TheCommittedFiguresAreWhatTheFitYields) {
  const auto path = testing::silicon_csv();
  if (!path) return;
  const auto rows = load_silicon(*path);
  ASSERT_TRUE(rows) << rows.error().message();
  const Calibration fitted = calibrate(*rows);
  const auto committed = engine::roofline_calibration();
  ASSERT_EQ(fitted.size(), committed.size()) << "roofline_calibration.inc is stale; write it anew";
  for (std::size_t i = 0; i < fitted.size(); ++i) {
    EXPECT_EQ(fitted[i].effect, committed[i].effect);
    for (std::size_t k = 0; k < engine::kFigures; ++k)
      EXPECT_NEAR(fitted[i].shift[k], committed[i].shift[k], 1e-3) << fitted[i].effect << "[" << k << "]";
  }
}

}  // namespace
}  // namespace penstock::fidelity
