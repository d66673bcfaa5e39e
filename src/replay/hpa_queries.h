// PromQL of the figures by which an HPA scales a pool.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "planner/hpa_targets.h"

namespace penstock::replay {

// Kinds of engines whose series are known, as `prometheus.preset` names them.
[[nodiscard]] std::vector<std::string_view> queried_engines();

// The sum over the replicas that `matchers` select; `engine` is one of queried_engines(). Rates are those of a minute.
// Engines count requests at their end.
[[nodiscard]] std::string hpa_query(planner::PoolMetric metric, std::string_view engine, std::string_view matchers);
// A name for the trigger: "request-rate".
[[nodiscard]] std::string_view trigger_name(planner::PoolMetric metric);

}  // namespace penstock::replay
