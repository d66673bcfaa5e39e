// When a memory will be full, by the trend of its usage.
#pragma once

#include <deque>
#include <optional>

#include "core/time.h"

namespace penstock::telemetry {

// Fits a line to the usage of the last minute. Not thread-safe.
class UsageTrend {
 public:
  static constexpr core::Duration kWindow = std::chrono::minutes{1};
  static constexpr core::Duration kSpanLeast = std::chrono::seconds{10};  // Observations cover at least this time.
  static constexpr core::Duration kFarthest = std::chrono::hours{1};      // No prediction reaches farther.

  // `share` is from 0 to 1; an unknown one ends the trend.
  void observe(core::Instant at, std::optional<double> share);

  // Time from the last observation until the usage is 1. Empty if it does not grow: the slope of the line must be at
  // least three times its standard error. O(observations of a minute).
  [[nodiscard]] std::optional<core::Duration> full_in() const;

 private:
  struct Observed {
    core::Instant at;
    double share = 0.0;
  };
  std::deque<Observed> observed_;
};

}  // namespace penstock::telemetry
