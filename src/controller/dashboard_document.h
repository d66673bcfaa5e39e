// The state of a running Penstock as JSON: what the live page shows, and what scripts may ask for.
#pragma once

#include <string>

#include "controller/planner_daemon.h"

namespace penstock::controller {

// Everything but the points; docs/dashboard.md describes it. Times are seconds since the planner started.
[[nodiscard]] std::string state_document(const PlannerDaemon& daemon, core::Instant now, const std::string& version);
// The points that are kept, or the last one alone.
[[nodiscard]] std::string points_document(const PlannerDaemon& daemon);
[[nodiscard]] std::string last_point_document(const PlannerDaemon& daemon);

}  // namespace penstock::controller
