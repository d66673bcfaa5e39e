#include "forecast/distribution.h"

#include <algorithm>

namespace penstock::forecast {

double Distribution::quantile(double p) const {
  if (!(p > kProbabilities.front())) return quantiles.front();
  if (p >= kProbabilities.back()) return quantiles.back();
  const auto upper = static_cast<std::size_t>(std::upper_bound(kProbabilities.begin(), kProbabilities.end(), p) -
                                              kProbabilities.begin());
  const double low = kProbabilities[upper - 1];
  const double share = (p - low) / (kProbabilities[upper] - low);
  return quantiles[upper - 1] + share * (quantiles[upper] - quantiles[upper - 1]);
}

double pinball_loss(double p, double quantile, double outcome) {
  return outcome >= quantile ? p * (outcome - quantile) : (1.0 - p) * (quantile - outcome);
}

}  // namespace penstock::forecast
