// "constant": expects the mean of the points of the last window (60 s by default) at every horizon. With an interval as
// long as the window, this is the last value.
#pragma once

#include <deque>

#include "core/state_archive.h"
#include "forecast/model.h"
#include "forecast/predictor.h"

namespace penstock::forecast {

class ConstantModel final : public Model {
 public:
  explicit ConstantModel(const PredictorOptions& options);

  void update(const Point& point) override;
  [[nodiscard]] bool ready() const override { return !points_.empty(); }
  void expect(std::span<double> path) const override;

  void archive(core::StateArchive& state) override { state("constant", points_); }

 private:
  std::int64_t window_steps_;
  std::deque<Point> points_;
};

}  // namespace penstock::forecast
