// Thresholds for the share of requests that met the SLO in a trial, and the misses that a goal allows.
#pragma once

#include <algorithm>

namespace penstock::planner {

inline constexpr double kAllKept = 0.999;  // All requests, within the resolution of a trial.
// Typical for an overloaded fleet, which hardly improves when it is doubled.
inline constexpr double kHardlyHalf = 0.5;

// Share of requests that a fleet may miss beside those that a fleet of any size misses. The goal is an attainment;
// where the unavoidable misses leave less than half of what it allows, half of it is allowed.
[[nodiscard]] constexpr double allowed_misses(double best, double goal) {
  return std::max(best - goal, 0.5 * best * (1.0 - goal));
}

}  // namespace penstock::planner
