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

// Best first: highest SLO attainment, then fewest GPU-hours, then the given order.
[[nodiscard]] std::vector<RankedResult> rank(const std::vector<decision::RunResult>& results);

// One or two sentences that compare the best policy with the best static fleet.
[[nodiscard]] std::string headline(const Report& report);

}  // namespace penstock::report
