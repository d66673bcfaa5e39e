// The targets that a planner publishes for those that follow it, so that all give other autoscalers the same answer.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "connect/recommended_replicas.h"

namespace penstock::controller {

// {"chat":5}; a pool whose target is unknown is left out.
[[nodiscard]] std::string format_targets(const std::vector<connect::RecommendedReplicas>& pools);

// By pool. What is malformed, or no number of replicas, is left out.
[[nodiscard]] std::map<std::string, std::uint32_t> parse_targets(std::string_view text);

}  // namespace penstock::controller
