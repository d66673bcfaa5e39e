// The load of engines that report no KV usage, by the number of requests that they run.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>

#include "core/state_archive.h"
#include "core/time.h"
#include "signals/observation.h"

namespace penstock::planner {

// The known concurrency is the greatest number of requests that a replica of the pool has run at once. The load of a
// minute is the greater of two figures: the running requests of the busiest replica, and the requests in flight per
// replica by the arrival rate and the mean duration of a request (Little's law), which counts requests that begin and
// end between two samples. Not thread-safe.
class RunningLoad {
 public:
  // Receives every observation in order of time; `window` is the memory. O(replicas).
  void observe(core::Instant at, const signals::PoolObservation& pool, core::Duration window);

  // Greatest load within the window as a share of the known concurrency; 0 for an idle pool. Empty if the observations
  // cover less than the window, a request waited within it, or the duration of arrived requests was unknown.
  [[nodiscard]] std::optional<double> share() const;
  [[nodiscard]] bool has_waited() const;  // A request waited within the window.

  void archive(core::StateArchive& state) { state("running_load", entries_, concurrency_, covers_window_); }

 private:
  struct Entry {
    core::Instant at;
    double load = 0.0;
    bool waited = false, unknown = false;
    void archive(core::StateArchive& state) { state.values_of(at, load, waited, unknown); }
  };

  std::deque<Entry> entries_;  // Of the window.
  std::uint32_t concurrency_ = 0;
  bool covers_window_ = false;
};

}  // namespace penstock::planner
