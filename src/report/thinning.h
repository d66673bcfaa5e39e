// Fewer points for the eye: a report stays small however long the run was.
#pragma once

#include <vector>

#include "decision/run_result.h"

namespace penstock::report {

// At most `points` points (at least 1), each made of neighbours. Counts add up, rates keep their integral, the fleet and
// the date are those of the last neighbour; the queue, KV usage and p95 are the worst of them, p50 is their mean weighted
// by count. A series that is short enough comes back as it is.
[[nodiscard]] std::vector<decision::SeriesPoint> thin(const std::vector<decision::SeriesPoint>& series,
                                                      std::size_t points);

}  // namespace penstock::report
