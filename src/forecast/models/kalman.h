// "kalman": a filtered local level with a trend.
//   level' = level + trend + N(0, q_level),  trend' = trend + N(0, q_trend),  value = level + N(0, r)
// The variances apply to one minute and are rescaled to the interval of d minutes, so that the filter's time constant
// does not depend on the interval: q_level · d, q_trend · d³ for a trend per interval, r / d. Only their ratios matter,
// so the filter has no unit. A missing interval is a prediction without correction. Ready from the fifth point.
#pragma once

#include "core/state_archive.h"
#include "forecast/model.h"
#include "forecast/predictor.h"

namespace penstock::forecast {

class KalmanModel final : public Model {
 public:
  static constexpr int kPointsMin = 5;

  explicit KalmanModel(const PredictorOptions& options);

  void update(const Point& point) override;
  [[nodiscard]] bool ready() const override { return points_ >= kPointsMin; }
  void expect(std::span<double> path) const override;

  [[nodiscard]] double level() const { return level_; }
  [[nodiscard]] double trend() const { return trend_; }  // Per interval.

  void archive(core::StateArchive& state) override {
    state("kalman", level_, trend_, p_level_, p_both_, p_trend_, last_step_, points_);
  }

 private:
  void predict();

  double q_level_, q_trend_, r_, initial_variance_;
  double level_ = 0.0, trend_ = 0.0;
  double p_level_ = 0.0, p_both_ = 0.0, p_trend_ = 0.0;  // Covariance of the state.
  std::int64_t last_step_ = 0;
  int points_ = 0;
};

}  // namespace penstock::forecast
