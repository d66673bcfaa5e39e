#include "forecast/models/constant.h"

#include <algorithm>

namespace penstock::forecast {

ConstantModel::ConstantModel(const PredictorOptions& options)
    : window_steps_(std::max<std::int64_t>(1, options.level_window / options.interval)) {}

void ConstantModel::update(const Point& point) {
  points_.push_back(point);
  while (points_.front().step <= point.step - window_steps_) points_.pop_front();
}

void ConstantModel::expect(std::span<double> path) const {
  double sum = 0.0;
  for (const Point& point : points_) sum += point.value;
  std::fill(path.begin(), path.end(), sum / static_cast<double>(points_.size()));
}

}  // namespace penstock::forecast
