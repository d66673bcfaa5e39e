// Closes the gap between a selection and its bound, or reports the remaining gap.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "planner/global/stage.h"

namespace penstock::planner::global {

struct SearchResult {
  std::optional<Selection> better;  // A selection with a score above the requested one; optimal if the bound equals it.
  double bound = 0.0;               // No selection scores more.
  std::size_t made = 0;             // Number of states created.
};

// Dynamic programming over the groups. A state is the use and score of the groups so far. It is discarded if another
// state of its depth scores as much with no more of any resource, if the remaining groups cannot raise it above `above`
// (by the bound at `prices`), or if a resource would be exceeded. Exact unless a depth has more than `states_max`
// states: then those with the lowest bounds are discarded, and the highest of these bounds is reported. `work_max`
// limits the states created over all depths; close to it, fewer are kept.
struct SearchLimits {
  std::size_t states_max = 4096;
  std::size_t work_max = 180'000;
};
[[nodiscard]] SearchResult search(const Stage& stage, std::span<const double> prices, double above,
                                  const SearchLimits& limits);

}  // namespace penstock::planner::global
