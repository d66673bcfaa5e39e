// The state of a running planner as JSON, for the live page and for scripts.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "controller/planner_daemon.h"

namespace penstock::dashboard {

enum class Decisions : std::uint8_t { kNewest, kAll };  // At most 100, or all that the daemon keeps.

// The state without the points; docs/dashboard.md describes it. Times are seconds since the planner started.
// `deployments` are the names of all that are planned together; empty: there is one.
[[nodiscard]] std::string state_document(const controller::PlannerDaemon& daemon, core::Instant now,
                                         const std::string& version, Decisions shown = Decisions::kNewest,
                                         const std::vector<std::string>& deployments = {});
// All points, or only the last one.
[[nodiscard]] std::string points_document(const controller::PlannerDaemon& daemon);
[[nodiscard]] std::string last_point_document(const controller::PlannerDaemon& daemon);

}  // namespace penstock::dashboard
