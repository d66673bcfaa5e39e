// The engine's time, which runs faster or slower than the wall's.
#pragma once

#include <algorithm>
#include <cmath>

#include "core/time.h"

namespace penstock::engine_server {

class ModelClock {
 public:
  ModelClock(core::Instant wall, double rate) : wall_(wall), rate_(rate) {}

  // From now on a second of the wall is `rate` (> 0) seconds of the engine.
  void set_rate(double rate, core::Instant wall) {
    time_ = at(wall);
    wall_ = wall;
    rate_ = rate;
  }
  [[nodiscard]] double rate() const { return rate_; }

  [[nodiscard]] core::Instant at(core::Instant wall) const { return time_ + scaled(wall - wall_, rate_); }
  // How long the wall takes from `wall` until at() is no less than `time`; 0 if it is already.
  [[nodiscard]] core::Duration wait(core::Instant time, core::Instant wall) const {
    const core::Duration left = time - at(wall);
    if (left <= core::Duration{}) return {};
    return scaled(left, 1.0 / rate_) + core::Duration{1};  // rounding must not wake it too early
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
