// How long the planner's ticks take.
#pragma once

#include "core/time.h"
#include "report/metrics.h"

namespace penstock::controller {

// Adds the time from its construction to its destruction, on the same thread, to histograms that outlive it.
class TickTimer {
 public:
  explicit TickTimer(report::TickTimes& times);
  ~TickTimer();
  TickTimer(const TickTimer&) = delete;
  TickTimer& operator=(const TickTimer&) = delete;

 private:
  report::TickTimes& times_;
  core::Instant began_;
  core::Duration cpu_began_;
};

}  // namespace penstock::controller
