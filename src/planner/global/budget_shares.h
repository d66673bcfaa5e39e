// What each deployment would have if a budget were split once and for all.
#pragma once

#include <vector>

#include "core/result.h"
#include "planner/global/global_planner.h"

namespace penstock::planner::global {

struct BudgetShare {
  std::vector<Hardware> hardware;  // the price list with this deployment's stock
  Budget budget;
};

// By deployment. Of every limit each gets what its floor takes, and of the rest a share in the ratio of the GPUs that
// its demand takes at best. A kind's stock is split among those that have a pool on it. GPUs are split whole, by the
// largest remainder. Floors that do not fit together, or hardware that is not in the list, are errors.
[[nodiscard]] core::Result<std::vector<BudgetShare>> budget_shares(const std::vector<Deployment>& deployments,
                                                                   const std::vector<Hardware>& hardware,
                                                                   const Budget& budget);

}  // namespace penstock::planner::global
