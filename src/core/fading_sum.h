// A sum whose parts fade with their age.
#pragma once

#include <algorithm>
#include <cmath>

#include "core/time.h"

namespace penstock::core {

class FadingSum {
 public:
  // A part counts 1/e after `fades` (> 0).
  explicit FadingSum(Duration fades) : fades_s_(to_seconds(fades)) {}

  void add(double amount, Instant now) {
    sum_ = value(now) + amount;
    at_ = std::max(at_, now);
  }
  void scale(double share) { sum_ *= share; }

  // A time before the last part counts as the time of that part.
  [[nodiscard]] double value(Instant now) const {
    return sum_ * std::exp(-std::max(to_seconds(now - at_), 0.0) / fades_s_);
  }
  [[nodiscard]] bool is_empty() const { return sum_ == 0.0; }  // Nothing was added yet.

 private:
  double fades_s_;
  double sum_ = 0.0;
  Instant at_{};
};

}  // namespace penstock::core
