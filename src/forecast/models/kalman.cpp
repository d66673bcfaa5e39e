#include "forecast/models/kalman.h"

#include <algorithm>

namespace penstock::forecast {
namespace {

// Limit of predictions over a gap, after which the level carries no information.
constexpr std::int64_t kPredictionsMax = 1000;

}  // namespace

KalmanModel::KalmanModel(const PredictorOptions& options) {
  const double minutes = core::to_seconds(options.interval) / 60.0;
  q_level_ = options.q_level * minutes;
  q_trend_ = options.q_trend * minutes * minutes * minutes;
  r_ = options.r / minutes;
  initial_variance_ = options.initial_variance;
}

void KalmanModel::update(const Point& point) {
  if (points_ == 0) {
    level_ = point.value;
    p_level_ = initial_variance_ > 0.0 ? initial_variance_ : r_;
    p_trend_ = initial_variance_ > 0.0 ? initial_variance_ : q_trend_ + q_level_;
  } else {
    const std::int64_t steps = std::min(point.step - last_step_, kPredictionsMax);
    for (std::int64_t i = 0; i < steps; ++i) predict();
    const double innovation = point.value - level_;
    const double variance = p_level_ + r_;
    const double gain_level = p_level_ / variance;
    const double gain_trend = p_both_ / variance;
    level_ += gain_level * innovation;
    trend_ += gain_trend * innovation;
    p_trend_ -= gain_trend * p_both_;
    p_both_ *= 1.0 - gain_level;
    p_level_ *= 1.0 - gain_level;
  }
  last_step_ = point.step;
  points_ = std::min(points_ + 1, kPointsMin);
}

void KalmanModel::predict() {
  level_ += trend_;
  p_level_ += 2.0 * p_both_ + p_trend_ + q_level_;
  p_both_ += p_trend_;
  p_trend_ += q_trend_;
}

void KalmanModel::expect(std::span<double> path) const {
  for (std::size_t k = 0; k < path.size(); ++k) path[k] = level_ + trend_ * static_cast<double>(k + 1);
}

}  // namespace penstock::forecast
