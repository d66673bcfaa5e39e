// Which policy did best, what to call it, and the sentence that says so. Every rendering keeps this order.
#pragma once

#include <string>
#include <vector>

#include "report/run_info.h"

namespace penstock::report {

struct RankedResult {
  const decision::RunResult* result = nullptr;  // into the vector that was ranked, which must outlive this
  // The policy; with size or router where results would share a name: "static 4", "kpa (p2c)". No two are equal.
  std::string label;
};

// Best first: highest SLO attainment, then fewest GPU-hours, then the given order.
[[nodiscard]] std::vector<RankedResult> rank(const std::vector<decision::RunResult>& results);

// One or two sentences on the best policy and the static fleet to hold it against, for people in a hurry.
[[nodiscard]] std::string headline(const Report& report);

}  // namespace penstock::report
