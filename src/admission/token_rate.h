// Measures the rate at which tokens are admitted.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "core/time.h"

namespace penstock::admission {

// Exponentially weighted rate over the last 30 s.
class TokenRate {
 public:
  void add(std::uint64_t tokens, core::Instant now) {
    if (tokens_ == 0.0) since_ = now;
    tokens_ = faded(now) + static_cast<double>(tokens);
    at_ = std::max(at_, now);
  }
  [[nodiscard]] double tokens_per_s(core::Instant now) const {
    const double age = std::max(core::to_seconds(now - since_), kAgeMinSeconds);
    return faded(now) / (kWindowSeconds * -std::expm1(-age / kWindowSeconds));
  }

 private:
  static constexpr double kWindowSeconds = 30.0;
  static constexpr double kAgeMinSeconds = 1.0;

  [[nodiscard]] double faded(core::Instant now) const {
    return tokens_ * std::exp(-std::max(core::to_seconds(now - at_), 0.0) / kWindowSeconds);
  }
  double tokens_ = 0.0;
  core::Instant since_, at_;
};

}  // namespace penstock::admission
