// The fixed share of a budget that each deployment would have.
#pragma once

#include <vector>

#include "core/result.h"
#include "planner/global/global_planner.h"

namespace penstock::planner::global {

struct BudgetShare {
  std::vector<Hardware> hardware;  // The price list with this deployment's stock.
  Budget budget;
};

// Returns one share per deployment. Each gets what its floor uses of every limit, and divides the rest in the ratio of
// the GPUs that its demand uses at best. The stock of a kind is split among the deployments that have a pool on it.
// GPUs are split in whole numbers, by largest remainder. Floors that do not fit together, or unknown hardware, are
// errors.
[[nodiscard]] core::Result<std::vector<BudgetShare>> budget_shares(const std::vector<Deployment>& deployments,
                                                                   const std::vector<Hardware>& hardware,
                                                                   const Budget& budget);

}  // namespace penstock::planner::global
