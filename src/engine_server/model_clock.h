// The engine's clock, which may run faster or slower than the wall clock.
#pragma once

#include <algorithm>
#include <cmath>

#include "core/time.h"

namespace penstock::engine_server {

class ModelClock {
 public:
  ModelClock(core::Instant wall, double rate) : wall_(wall), rate_(rate) {}

  // From now on, one wall-clock second is `rate` (> 0) engine seconds.
  void set_rate(double rate, core::Instant wall) {
    time_ = at(wall);
    wall_ = wall;
    rate_ = rate;
  }
  [[nodiscard]] double rate() const { return rate_; }

  [[nodiscard]] core::Instant at(core::Instant wall) const { return time_ + scaled(wall - wall_, rate_); }
  // Wall-clock time from `wall` until at() reaches `time`; 0 if it has.
  [[nodiscard]] core::Duration wait(core::Instant time, core::Instant wall) const {
    const core::Duration left = time - at(wall);
    if (left <= core::Duration{}) return {};
    // Rounded up, so that a timer does not fire too early.
    return scaled(left, 1.0 / rate_) + core::Duration{1};
  }
  [[nodiscard]] core::Duration wall_time(core::Duration time) const { return scaled(time, 1.0 / rate_); }

 private:
  static core::Duration scaled(core::Duration time, double factor) {
    return core::Duration{std::llround(static_cast<double>(time.count()) * factor)};
  }

  core::Instant wall_;
  core::Instant time_ = core::kStart;
  double rate_;
};

}  // namespace penstock::engine_server
