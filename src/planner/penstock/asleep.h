// How many replicas serve and how many are kept asleep: a newsvendor with two stages.
#pragma once

#include <cstdint>
#include <span>

#include "core/time.h"
#include "signals/observation.h"

namespace penstock::planner {

// One possible course of the need over the start-up time of a replica, in replicas. Quantiles of a forecast are futures
// of equal weight.
struct FutureNeed {
  double within_wake_time = 0.0;  // The greatest need before a replica that is woken now serves.
  double within_start_up = 0.0;   // The greatest need before a replica that is started now serves.
  double weight = 1.0;
};

struct TwoStages {
  std::uint32_t base = 0;    // Replicas that serve now.
  std::uint32_t asleep = 0;  // Replicas beside them, to be woken once the need exceeds the base.
  double cost = 0.0;         // The expected cost below, of one start-up time.
};

// The expected cost of a choice, in replicas at the full price for one start-up time:
//
//   base + sleep_price · asleep
//   + f · miss_price · E[max(0, within_wake_time − base)]
//   + (1 − f) · ((1 − sleep_price) · E[woken] + miss_price · E[max(0, within_start_up − base − asleep)])
//
// with woken = min(asleep, max(0, within_start_up − base)) and f = wake_time / start_up. `miss_price` is the cost of a
// replica that is missing for some time, relative to the price of a replica for that time. Nothing sleeps in a pool
// without a wake time, or with one that is not shorter than its start-up. Needs are rounded up to whole replicas, and
// futures that are not finite or have no weight are ignored.
[[nodiscard]] double expected_cost(std::span<const FutureNeed> futures, std::uint32_t base, std::uint32_t asleep,
                                   const signals::Pool& pool, double miss_price);

// The number asleep of the least cost beside a base that is given. One more pays while
//
//   P(within_start_up > base + asleep) > sleep_price / ((1 − f) · (miss_price − 1 + sleep_price)).
//
// At most what max_replicas leaves beside the base. O(futures · log futures).
[[nodiscard]] std::uint32_t asleep_for(std::span<const FutureNeed> futures, std::uint32_t base,
                                       const signals::Pool& pool, double miss_price);

// Base and number asleep of the least cost within the bounds of the pool; the smaller base of equals. Without futures
// min_replicas serve and none sleeps. O(futures · (log futures + max_replicas)).
[[nodiscard]] TwoStages two_stages_for(std::span<const FutureNeed> futures, const signals::Pool& pool,
                                       double miss_price);

}  // namespace penstock::planner
