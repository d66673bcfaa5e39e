// The exact answer where one resource is scarce: a table over every amount of it.
#pragma once

#include <cstddef>
#include <optional>

#include "planner/global/stage.h"

namespace penstock::planner::global {

inline constexpr std::size_t kTableWorkMax = 24'000'000;  // amounts · choices · figures: some 20 ms
inline constexpr std::size_t kTableFiguresMax = 6;        // the score and the losses of pinned criteria

// Bellman's recursion f(group, amount) = max_choice f(group - 1, amount - use) + score over the first resource of the
// stage, of which the others must be losses. Sums are compared by their losses first, one after the other, then by
// score: what comes out loses least, and of all that lose as little it scores most. None where that takes too much
// work, where a group has no choices, and where nothing fits the first resource.
[[nodiscard]] std::optional<Selection> best_by_table(const Stage& stage);

}  // namespace penstock::planner::global
