#include "forecast/models/linear.h"

#include <algorithm>

namespace penstock::forecast {

LinearModel::LinearModel(const PredictorOptions& options)
    : window_steps_(std::max<std::int64_t>(3, options.trend_window / options.interval)) {}

void LinearModel::update(const Point& point) {
  points_.push_back(point);
  // Three points are kept over a gap, because fewer have no trend.
  while (points_.size() > 3 && points_.front().step <= point.step - window_steps_) points_.pop_front();
}

void LinearModel::expect(std::span<double> path) const {
  const std::int64_t last = points_.back().step;
  const auto count = static_cast<double>(points_.size());
  double time_sum = 0.0, value_sum = 0.0;
  for (const Point& point : points_) {
    time_sum += static_cast<double>(point.step - last);
    value_sum += point.value;
  }
  const double time_mean = time_sum / count;
  const double value_mean = value_sum / count;
  double covariance = 0.0, variance = 0.0;
  for (const Point& point : points_) {
    const double time = static_cast<double>(point.step - last) - time_mean;
    covariance += time * (point.value - value_mean);
    variance += time * time;
  }
  const double slope = covariance / variance;
  for (std::size_t k = 0; k < path.size(); ++k) path[k] = value_mean + slope * (static_cast<double>(k + 1) - time_mean);
}

}  // namespace penstock::forecast
