// A bound on what a stage can score, and good selections on the way to it.
#pragma once

#include <optional>
#include <vector>

#include "planner/global/stage.h"

namespace penstock::planner::global {

// For any prices p ≥ 0 of the resources, no selection scores more than
//   L(p) = Σ_groups max_choice (score − p·use) + p·limits        (Lagrangian relaxation)
// The least L(p) equals the bound of the linear relaxation; its prices are the shadow prices of the resources.
struct Relaxation {
  std::vector<double> prices;  // by resource: score for one unit more
  double bound = 0.0;          // L(prices)
  Selection best;              // the best selection met that fits; starts from the one given
};
// One resource is bisected; several go down a subgradient with Polyak's step, once straight and once bent.
[[nodiscard]] Relaxation relax(const Stage& stage, Selection start);

struct Feasibility {
  std::optional<Selection> found;
  bool impossible = false;     // proven; when nothing is found and this is false, nobody knows
  std::vector<double> prices;  // those that came nearest to proving it
};
// Any selection within the limits, by prices that rise where too much is used. Scores must all be 0.
[[nodiscard]] Feasibility find_feasible(const Stage& stage);

}  // namespace penstock::planner::global
