// One way to continue a series: what a predictor is built around. Models know neither quantiles nor bad input; they get
// points in order and say what they expect.
#pragma once

#include <memory>
#include <span>

#include "core/state_archive.h"
#include "forecast/intake.h"

namespace penstock::forecast {

class Model {
 public:
  virtual ~Model() = default;

  virtual void update(const Point& point) = 0;  // steps ascend; holes are missing intervals
  [[nodiscard]] virtual bool ready() const = 0;

  // path[k] becomes the mean expected over the interval that ends k + 1 steps after the last point. May be negative or
  // run away: the predictor bounds it. Only when ready.
  virtual void expect(std::span<double> path) const = 0;

  // Saves or restores what was learned. It is restored into a model that was made with the same options.
  virtual void archive(core::StateArchive& state) = 0;
};

}  // namespace penstock::forecast
