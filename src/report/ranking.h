// The ranking of the policies, their labels, and the headline. Every rendering uses this order.
#pragma once

#include <string>
#include <vector>

#include "report/run_info.h"

namespace penstock::report {

struct RankedResult {
  const decision::RunResult* result = nullptr;  // Points into the ranked vector, which must outlive this.
  // The policy, with size or router if results would have the same name: "static 4", "kpa (p2c)". Labels are unique.
  std::string label;
};

// What decides the order of two results.
struct Standing {
  double slo_attainment = 0.0, gpu_hours = 0.0;
};
// Higher SLO attainment, then fewer GPU-hours. A missing figure is worse than all others, so that the order is total.
[[nodiscard]] bool better(const Standing& a, const Standing& b);

// Best first: highest SLO attainment, then fewest GPU-hours, then the given order.
[[nodiscard]] std::vector<RankedResult> rank(const std::vector<decision::RunResult>& results);

// One or two sentences that compare the best policy with the best static fleet.
[[nodiscard]] std::string headline(const Report& report);

}  // namespace penstock::report
