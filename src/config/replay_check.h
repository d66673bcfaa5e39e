// Contradictions between settings that are each fine alone.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>

#include "config/replay.h"

namespace penstock::config {

// Where a value came from, by its path ("slo.ttft", "pools[1].replicas", "policy[0]"): "penstock.yaml:3:9: slo.ttft" or
// "--slo ttft". What is a default is not in it.
using Origins = std::map<std::string, std::string, std::less<>>;

// Settles what follows from other values, such as replicas that nobody named beside bounds that somebody did, "all"
// policies and names of pools, and reports what cannot be.
void check_replay(ReplaySettings& settings, std::span<const std::string_view> policies, const Origins& origins,
                  Problems& problems);

}  // namespace penstock::config
