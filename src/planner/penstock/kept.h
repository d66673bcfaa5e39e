// Thresholds for the share of requests that met the SLO in a trial.
#pragma once

namespace penstock::planner {

inline constexpr double kAllKept = 0.999;  // All requests, within the resolution of a trial.
// Typical for an overloaded fleet, which hardly improves when it is doubled.
inline constexpr double kHardlyHalf = 0.5;

}  // namespace penstock::planner
