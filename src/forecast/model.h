// Interface of extrapolation models, which predictors build on. Models receive valid points in order and return
// expected values; they handle neither quantiles nor invalid input.
#pragma once

#include <memory>
#include <span>

#include "core/state_archive.h"
#include "forecast/intake.h"

namespace penstock::forecast {

class Model {
 public:
  virtual ~Model() = default;

  virtual void update(const Point& point) = 0;  // Steps ascend; gaps are missing intervals.
  [[nodiscard]] virtual bool ready() const = 0;

  // Sets path[k] to the mean expected over the interval that ends k + 1 steps after the last point. Values may be
  // negative or diverge, because the predictor bounds them. Requires ready().
  virtual void expect(std::span<double> path) const = 0;

  // Saves or restores what was learned. It is restored into a model that was made with the same options.
  virtual void archive(core::StateArchive& state) = 0;
};

}  // namespace penstock::forecast
