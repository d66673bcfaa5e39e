// Quantiles from past forecast errors, without an assumption on their distribution, which is far from Gaussian for
// bursty traffic.
#pragma once

#include <cstdint>
#include <vector>

#include "core/state_archive.h"
#include "forecast/distribution.h"

namespace penstock::forecast {

// Errors are stored as differences of square roots, √outcome - √expected. On this scale the spread of a Poisson count
// is independent of its size, and the scale has no unit, so that request rates and tokens behave alike.
[[nodiscard]] double to_scale(double value);     // `value` must not be negative.
[[nodiscard]] double from_scale(double scaled);  // The result is never negative.

// The last kCapacity errors at one horizon, weighted by recency.
class Residuals {
 public:
  static constexpr std::size_t kCapacity = 512;
  static constexpr double kHalfLife = 256.0;  // Number of errors after which the weight halves.

  // `overlap` is the number of consecutive errors that share outcomes and are therefore not independent.
  explicit Residuals(double overlap = 1.0);

  void add(double residual);  // `residual` is on the square-root scale. O(log n) plus a move of at most 8 KB.
  [[nodiscard]] std::size_t count() const { return sorted_.size(); }

  // Residuals at kProbabilities, ascending; all 0 while empty. As in conformal prediction, the sample counts as one
  // independent error (`overlap` errors) larger than it is, so that the outer quantiles of a small sample are its
  // extremes. O(n).
  [[nodiscard]] Quantiles quantiles() const;

  void archive(core::StateArchive& state);

 private:
  struct Entry {
    double residual;
    std::uint64_t number;
  };
  [[nodiscard]] static bool comes_before(const Entry& a, const Entry& b) {
    return a.residual != b.residual ? a.residual < b.residual : a.number < b.number;
  }
  std::vector<Entry> sorted_;  // Ordered by residual, then number.
  std::vector<double> ring_;   // Indexed by number modulo capacity.
  std::uint64_t added_ = 0;
  double overlap_;
};

}  // namespace penstock::forecast
