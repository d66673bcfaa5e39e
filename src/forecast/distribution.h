// A value that is not known yet, as its mean and its quantiles.
#pragma once

#include <array>
#include <cstddef>

namespace penstock::forecast {

// Quantiles are kept at these probabilities; those between are interpolated.
inline constexpr std::array<double, 11> kProbabilities = {0.01, 0.05, 0.10, 0.25,  0.50, 0.75,
                                                          0.80, 0.90, 0.95, 0.975, 0.99};
using Quantiles = std::array<double, kProbabilities.size()>;  // ascending

struct Distribution {
  double mean = 0.0;      // the model's expectation
  Quantiles quantiles{};  // at kProbabilities

  // Linear between the kept ones; p below 0.01 and above 0.99 give the outermost, for nothing is known of the tails.
  [[nodiscard]] double quantile(double p) const;
};

// The loss that a p-quantile minimises: p per unit that the outcome is above it, 1 - p per unit below.
[[nodiscard]] double pinball_loss(double p, double quantile, double outcome);

}  // namespace penstock::forecast
