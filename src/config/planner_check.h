// Contradictions within the SLO and its segments, and between them, the planner's settings and the pools.
#pragma once

#include <span>
#include <string_view>

#include "config/replay_check.h"

namespace penstock::config {

// Fills in what segments and schedules leave out. The pools' bounds must be settled.
void check_planner(ReplaySettings& settings, std::span<const std::string_view> predictors, const Origins& origins,
                   Problems& problems);

}  // namespace penstock::config
