// "decomposition": a curve fitted to the whole history, after Prophet (Taylor and Letham, The American Statistician 72,
// 2018), by ridge regression instead of sampling:
//   value ≈ a + b t + Σ_j δ_j max(0, t - c_j) + Σ_{n≤6} day terms + Σ_{n≤3} week terms,  sin and cos of 2π n t / period
// with 10 changepoints c_j evenly over the first 80 % of the history; a period is included once the history covers it.
// The forecast starts from the latest values: their offset from the curve (smoothed over 5 minutes) is added and decays
// by the factor e in an hour. The history has at most 4,032 rows of at least a minute; when they are full, neighbours
// are merged until four long seasons are covered, then the oldest rows are dropped. Refitted every 60 points from 20
// rows on; a fit takes about 1 ms at full size.
#pragma once

#include <optional>
#include <vector>

#include "core/state_archive.h"
#include "forecast/model.h"
#include "forecast/predictor.h"

namespace penstock::forecast {

class DecompositionModel final : public Model {
 public:
  static constexpr std::size_t kRowsMax = 4032;
  static constexpr std::size_t kRowsMin = 20;
  static constexpr int kPointsPerFit = 60;

  explicit DecompositionModel(const PredictorOptions& options);

  void update(const Point& point) override;
  [[nodiscard]] bool ready() const override { return !coefficients_.empty(); }
  [[nodiscard]] std::size_t rows() const { return rows_.size(); }
  void expect(std::span<double> path) const override;

  void archive(core::StateArchive& state) override {
    state("decomposition", row_width_, rows_, fit_start_, fit_span_, with_season_, with_long_season_, coefficients_);
    state.values_of(offset_, last_, until_fit_);
    if (row_width_ <= core::Duration{} || (!coefficients_.empty() && coefficients_.size() != columns()))
      state.fail("does not fit together");
  }

 private:
  struct Row {
    std::int64_t number = 0;  // Index of the interval of length `row_width_`.
    double sum = 0.0;
    double count = 0.0;
    void archive(core::StateArchive& state) { state.values_of(number, sum, count); }
  };

  void keep(core::Instant middle, double value);
  void merge_rows();
  void refit();
  void fill(core::Instant middle, std::vector<double>& row) const;
  [[nodiscard]] double curve(core::Instant middle, std::vector<double>& row) const;
  [[nodiscard]] core::Instant middle_of(const Row& row) const;
  [[nodiscard]] std::size_t columns() const;

  core::Duration interval_, season_, long_season_;
  core::Duration row_width_;
  double decay_per_step_, fade_per_step_;
  std::vector<Row> rows_;
  // Time axis of the last fit: 0 at its first row, 1 at its last.
  core::Instant fit_start_;
  core::Duration fit_span_{1};
  bool with_season_ = false, with_long_season_ = false;
  std::vector<double> coefficients_;
  double offset_ = 0.0;  // Offset of recent values from the curve.
  Point last_;
  int until_fit_ = 0;
};

}  // namespace penstock::forecast
