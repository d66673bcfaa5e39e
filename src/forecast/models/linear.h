// "linear": a least-squares line through the points of the last window (10 minutes by default),
//   slope = Σ (t - t̄)(y - ȳ) / Σ (t - t̄)²,   expectation after k steps = ȳ + slope · (t_last + k - t̄)
// Ready from the third point.
#pragma once

#include <deque>

#include "core/state_archive.h"
#include "forecast/model.h"
#include "forecast/predictor.h"

namespace penstock::forecast {

class LinearModel final : public Model {
 public:
  explicit LinearModel(const PredictorOptions& options);

  void update(const Point& point) override;
  [[nodiscard]] bool ready() const override { return points_.size() >= 3; }
  void expect(std::span<double> path) const override;

  void archive(core::StateArchive& state) override { state("linear", points_); }

 private:
  std::int64_t window_steps_;
  std::deque<Point> points_;
};

}  // namespace penstock::forecast
