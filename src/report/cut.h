// A report on a part of a run, for runs of days and months.
#pragma once

#include <vector>

#include "core/time.h"
#include "report/run_info.h"

namespace penstock::report {

// One interval of the run; `from` is excluded and `to` included, as a point of a series stands for the time before it.
struct Interval {
  core::Instant from, to;
};

// From the start until nothing happens any more, in steps of `length` > 0; the last one may be shorter, or a tenth
// longer, since what comes after the last arrival is a few stragglers. Empty for a run without a series.
[[nodiscard]] std::vector<Interval> intervals_of(const decision::RunResult& result, core::Duration length);

// The page of one policy on one interval, with times from its start. Requests and attainment come from the series, by
// arrival; GPU-hours and cost are the run's, shared out by replica-time. What is known of the whole run only (latency
// percentiles, segments, failures) is left out, and a note says so; the charts have the percentiles.
[[nodiscard]] Report cut(const RunInfo& info, const decision::RunResult& result, const Interval& interval);

}  // namespace penstock::report
