// An upper bound of a stage's score, and good selections found on the way.
#pragma once

#include <optional>
#include <vector>

#include "planner/global/stage.h"

namespace penstock::planner::global {

// For any prices p ≥ 0 of the resources, no selection scores more than
//   L(p) = Σ_groups max_choice (score − p·use) + p·limits        (Lagrangian relaxation)
// The minimum of L(p) equals the bound of the linear relaxation; its prices are the shadow prices of the resources.
struct Relaxation {
  std::vector<double> prices;  // By resource: score of one unit more.
  double bound = 0.0;          // L(prices).
  Selection best;              // The best selection that fits; starts from the given one.
};
// One resource is bisected; several use subgradient descent with Polyak's step, once plain and once deflected.
[[nodiscard]] Relaxation relax(const Stage& stage, Selection start);

struct Feasibility {
  std::optional<Selection> found;
  bool impossible = false;     // Proven; if nothing is found and this is false, it is unknown.
  std::vector<double> prices;  // The prices that came closest to a proof.
};
// Searches any selection within the limits, with prices that rise where too much is used. All scores must be 0.
[[nodiscard]] Feasibility find_feasible(const Stage& stage);

}  // namespace penstock::planner::global
