// An unknown value as its mean and quantiles.
#pragma once

#include <array>
#include <cstddef>

namespace penstock::forecast {

// Quantiles are stored for these probabilities; others are interpolated.
inline constexpr std::array<double, 11> kProbabilities = {0.01, 0.05, 0.10, 0.25,  0.50, 0.75,
                                                          0.80, 0.90, 0.95, 0.975, 0.99};
using Quantiles = std::array<double, kProbabilities.size()>;  // Ascending.

struct Distribution {
  double mean = 0.0;      // Expectation of the model.
  Quantiles quantiles{};  // Values at kProbabilities.

  // Interpolates linearly. Probabilities below 0.01 and above 0.99 return the outermost quantile, because the tails are
  // unknown.
  [[nodiscard]] double quantile(double p) const;
};

// Loss function that a p-quantile minimises: p per unit that the outcome is above it, 1 - p per unit below it.
[[nodiscard]] double pinball_loss(double p, double quantile, double outcome);

}  // namespace penstock::forecast
