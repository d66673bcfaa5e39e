// "arima": ARIMA(p, d, q) on the last 512 rows; a row is the mean of a minute, or of an interval if that is longer,
// because low orders on seconds would only model noise.
//   z_t = c + Σ φ_i z_{t-i} + e_t + Σ θ_j e_{t-j},   z = y for d = 0, y_t - y_{t-1} for d = 1
// For d = 1, c is 0 unless the mean change exceeds three standard errors, because a spurious drift diverges. The model
// is refitted every 16 rows by the method of Hannan and Rissanen (Biometrika 69, 1982): a long autoregression estimates
// e, then φ and θ follow by least squares. The order is the one of kOrders with the lowest AIC among the stationary and
// invertible fits. Values above mean + 6 deviations are clipped before the fit, so that one burst does not dominate it.
// Missing rows are interpolated linearly; after more than kGapRowsMax of them the window restarts. Ready from row 24.
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
  double variance = 0.0;  // Variance of the innovations.
  double aic = 0.0;
  void archive(core::StateArchive& state) { state.values_of(phi, theta, constant, variance, aic); }
};

// Fits ARMA(p, q) by Hannan and Rissanen; empty if the series is too short or the result is not stationary and
// invertible. `innovations` are estimates of e, one per value.
[[nodiscard]] std::optional<ArmaFit> fit_arma(const std::vector<double>& values, const std::vector<double>& innovations,
                                              std::size_t p, std::size_t q, bool with_constant = true);
// Returns the residuals of a long autoregression, or an empty vector if it cannot be fitted.
[[nodiscard]] std::vector<double> estimate_innovations(const std::vector<double>& values);
// Returns true if all roots of 1 - Σ c_i x^i are outside the unit circle.
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
  std::int64_t row_ = 0;  // The open row.
  double row_sum_ = 0.0, row_count_ = 0.0;
  std::int64_t last_row_ = 0;  // The last closed row.
  std::int64_t last_step_ = 0;
  std::deque<double> values_;  // One value per row.
  ArmaFit fit_;
  int differences_ = 0;
  bool fitted_ = false;
  std::size_t until_fit_ = kRowsMin;
  // The latest z and e, newest last, as many as the orders need.
  std::vector<double> recent_z_, recent_e_;
};

}  // namespace penstock::forecast
