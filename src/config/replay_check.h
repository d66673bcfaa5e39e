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

// Where the value at the path came from; of a default, its flag or key.
[[nodiscard]] std::string place_of(const Origins& origins, const std::string& path);

// Settles what follows from other values, such as replicas that nobody named beside bounds that somebody did, "all"
// policies and names of pools, and reports what cannot be.
struct KnownNames {
  std::span<const std::string_view> policies, predictors;
};
void check_replay(ReplaySettings& settings, const KnownNames& known, const Origins& origins, Problems& problems);

}  // namespace penstock::config
