// Quantiles from what a predictor got wrong before: no assumption on the shape of the error, which for bursty traffic is
// far from a Gaussian.
#pragma once

#include <cstdint>
#include <vector>

#include "core/state_archive.h"
#include "forecast/distribution.h"

namespace penstock::forecast {

// Errors are kept on a scale of square roots, √outcome - √expected. There the spread of a Poisson count does not depend
// on its size, and the scale has no unit: requests a second and tokens behave alike.
[[nodiscard]] double to_scale(double value);     // value >= 0
[[nodiscard]] double from_scale(double scaled);  // never negative

// The last kCapacity errors at one horizon, weighted by recency.
class ResidualBook {
 public:
  static constexpr std::size_t kCapacity = 512;
  static constexpr double kHalfLife = 256.0;  // in errors

  // `overlap`: how many errors in a row share outcomes, and so say the same.
  explicit ResidualBook(double overlap = 1.0);

  void add(double residual);  // on the scale; O(log n) and a move of at most 8 KB
  [[nodiscard]] std::size_t count() const { return sorted_.size(); }

  // Residuals at kProbabilities, ascending; all 0 while empty. As conformal prediction does, the sample counts as one
  // independent error (`overlap` of them) larger than it is, so that the outer quantiles of a small sample are its
  // extremes. O(n).
  [[nodiscard]] Quantiles quantiles() const;

  void archive(core::StateArchive& state) {
    state.values_of(sorted_, added_);
    state.elements(ring_);
    if (sorted_.size() > kCapacity) state.fail("has too many residuals");
  }

 private:
  struct Entry {
    double residual;
    std::uint64_t number;
    void archive(core::StateArchive& state) { state.values_of(residual, number); }
  };
  std::vector<Entry> sorted_;  // by residual, then number
  std::vector<double> ring_;   // by number modulo capacity
  std::uint64_t added_ = 0;
  double overlap_;
};

}  // namespace penstock::forecast
