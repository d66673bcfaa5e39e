// Measures the rate at which tokens are admitted.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "core/fading_sum.h"
#include "core/time.h"

namespace penstock::admission {

// Exponentially weighted rate over the last 30 s.
class TokenRate {
 public:
  void add(std::uint64_t tokens, core::Instant now) {
    if (tokens_.is_empty()) since_ = now;
    tokens_.add(static_cast<double>(tokens), now);
  }
  [[nodiscard]] double tokens_per_s(core::Instant now) const {
    const double age = std::max(core::to_seconds(now - since_), kAgeMinSeconds);
    return tokens_.value(now) / (kWindowSeconds * -std::expm1(-age / kWindowSeconds));
  }

 private:
  static constexpr double kWindowSeconds = 30.0;
  static constexpr double kAgeMinSeconds = 1.0;

  core::FadingSum tokens_{core::from_seconds(kWindowSeconds)};
  core::Instant since_;
};

}  // namespace penstock::admission
