// "arima": ARIMA(p, d, q) on the last 512 rows; a row is the mean of a minute, or of an interval if that is longer.
// Low orders on seconds would see nothing but the noise between neighbours.
//   z_t = c + Σ φ_i z_{t-i} + e_t + Σ θ_j e_{t-j},   z = y where d = 0, y_t - y_{t-1} where d = 1
// With d = 1, c is 0 unless the mean change is above three standard errors: a drift that is not there runs away.
// Fitted anew every 16 rows by Hannan and Rissanen (Biometrika 69, 1982): a long autoregression gives estimates of e,
// then φ and θ follow by least squares. The orders are those of kOrders with the least AIC among the stationary and
// invertible fits. Values above mean + 6 deviations are cut before the fit: one burst would decide it. Missing rows are
// filled by a straight line; after more than kGapRowsMax of them the window begins anew. From row 24 on.
#pragma once

#include <deque>
#include <optional>
#include <vector>

#include "core/state_archive.h"
#include "forecast/model.h"
#include "forecast/predictor.h"

namespace penstock::forecast {

// A fitted model of a series z.
struct ArmaFit {
  std::vector<double> phi, theta;
  double constant = 0.0;
  double variance = 0.0;  // of the innovations
  double aic = 0.0;
  void archive(core::StateArchive& state) { state.values_of(phi, theta, constant, variance, aic); }
};

// ARMA(p, q) by Hannan and Rissanen; none when the series is too short or the result not stationary and invertible.
// `innovations` are estimates of e, one for each value.
[[nodiscard]] std::optional<ArmaFit> fit_arma(const std::vector<double>& values, const std::vector<double>& innovations,
                                              std::size_t p, std::size_t q, bool with_constant = true);
// Residuals of a long autoregression; empty when there is none.
[[nodiscard]] std::vector<double> estimate_innovations(const std::vector<double>& values);
// Whether all roots of 1 - Σ c_i x^i lie outside the unit circle.
[[nodiscard]] bool is_stable(const std::vector<double>& coefficients);

class ArimaModel final : public Model {
 public:
  static constexpr std::size_t kRowsMin = 24;
  static constexpr std::size_t kWindow = 512;
  static constexpr std::size_t kRowsPerFit = 16;
  static constexpr std::int64_t kGapRowsMax = 16;
  static constexpr core::Duration kRowWidth = std::chrono::minutes{1};

  explicit ArimaModel(const PredictorOptions& options);

  void update(const Point& point) override;
  [[nodiscard]] bool ready() const override { return fitted_; }
  void expect(std::span<double> path) const override;

  [[nodiscard]] const ArmaFit& fit() const { return fit_; }
  [[nodiscard]] int differences() const { return differences_; }

  void archive(core::StateArchive& state) override {
    state("arima", row_, row_sum_, row_count_, last_row_, last_step_, values_, fit_, differences_, fitted_, until_fit_);
    state.values_of(recent_z_, recent_e_);
  }

 private:
  void close_row();
  void append(double value);
  void refit();
  void run_innovations();
  [[nodiscard]] double one_step(std::span<const double> z, std::span<const double> e) const;

  std::int64_t steps_per_row_;
  std::int64_t row_ = 0;  // that is open
  double row_sum_ = 0.0, row_count_ = 0.0;
  std::int64_t last_row_ = 0;  // that was closed
  std::int64_t last_step_ = 0;
  std::deque<double> values_;  // of rows
  ArmaFit fit_;
  int differences_ = 0;
  bool fitted_ = false;
  std::size_t until_fit_ = kRowsMin;
  // The newest z and e, newest last, as many as the orders need.
  std::vector<double> recent_z_, recent_e_;
};

}  // namespace penstock::forecast
