// The exact solution for one scarce resource: a table over every amount of it.
#pragma once

#include <cstddef>
#include <optional>

#include "planner/global/stage.h"

namespace penstock::planner::global {

inline constexpr std::size_t kTableWorkMax = 24'000'000;  // Product of amounts, choices and figures; takes about 20 ms.
inline constexpr std::size_t kTableFiguresMax = 6;        // The score and the losses of pinned criteria.

// Bellman's recursion f(group, amount) = max_choice f(group - 1, amount - use) + score over the first resource of the
// stage; all other resources must be losses. Sums are compared by their losses first, one after the other, then by
// score, so the result has the lowest losses and, among equals, the highest score. Returns nothing if the table would
// be too large, if a group has no choices, or if nothing fits the first resource.
[[nodiscard]] std::optional<Selection> best_by_table(const Stage& stage);

}  // namespace penstock::planner::global
