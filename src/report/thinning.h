// Reduces the points of a series, so that reports of long runs stay small.
#pragma once

#include <vector>

#include "decision/run_result.h"

namespace penstock::report {

// At most `points` points (at least 1), each made of neighbours. Counts add up, rates keep their integral, the fleet
// and the date are those of the last neighbour; the queue, KV usage and p95 are the worst of them, p50 is their mean
// weighted by count. A short series is returned unchanged.
[[nodiscard]] std::vector<decision::SeriesPoint> thin(const std::vector<decision::SeriesPoint>& series,
                                                      std::size_t points);

}  // namespace penstock::report
