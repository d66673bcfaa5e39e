// Closes the gap between a selection and its bound, or says how much of it is left.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "planner/global/stage.h"

namespace penstock::planner::global {

struct SearchResult {
  std::optional<Selection> better;  // scores more than asked for; the best one, when the bound says so
  double bound = 0.0;               // no selection scores more
  std::size_t made = 0;             // states
};

// Dynamic programming over the groups. A state is what the groups so far use and score; it goes when another one of its
// depth scores as much with no more of anything, when what is left cannot bring it above `above` (the bound at
// `prices`), or when some resource would run out. Exact, unless a depth has more than `states_max` states: then those
// with the lowest bounds go, and the highest of these bounds is reported. `work_max` limits the states made over all
// depths: towards it, fewer are kept.
struct SearchLimits {
  std::size_t states_max = 4096;
  std::size_t work_max = 180'000;
};
[[nodiscard]] SearchResult search(const Stage& stage, std::span<const double> prices, double above,
                                  const SearchLimits& limits);

}  // namespace penstock::planner::global
