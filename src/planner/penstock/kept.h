// Shares of requests that kept the SLO in a trial, as searches over fleets read them.
#pragma once

namespace penstock::planner {

inline constexpr double kAllKept = 0.999;   // all of them, as far as a trial can tell
inline constexpr double kHardlyHalf = 0.5;  // of an overrun fleet, which may keep hardly more when it is doubled

}  // namespace penstock::planner
