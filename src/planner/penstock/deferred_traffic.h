// Traffic as it loads a fleet whose gateways defer requests.
#pragma once

#include <cstdint>
#include <vector>

#include "core/state_archive.h"
#include "core/time.h"
#include "signals/observation.h"

namespace penstock::planner {

// Requests that may wait for spare capacity load a fleet by their mean over their window, not by their peaks: each one
// counts at a time within its window that a hash of it draws, so that the rate at any time is the mean rate of the
// window before it. All other requests count when they arrive. Not thread-safe.
class DeferredTraffic {
 public:
  // Longer windows count as `window_most`: requests must be in observations that long after their arrival.
  explicit DeferredTraffic(core::Duration window_most) : window_most_(window_most) {}

  // Returns the observation with arrivals at these times, and with counters of arrivals and tokens that count them. It
  // is equal to `observation` as long as no request could be deferred. Valid until the next call. O(recent requests).
  [[nodiscard]] const signals::Observation& spread(const signals::Observation& observation);

  // Without it, all requests that still wait would arrive at once after a restart.
  void archive(core::StateArchive& state) {
    state("deferred", counted_to_, begun_, arrivals_, input_tokens_, output_tokens_, output_seen_, arrivals_seen_);
  }

 private:
  core::Duration window_most_;
  signals::Observation spread_;
  std::vector<signals::RecentRequest> requests_, moved_;
  core::Instant counted_to_ = core::Instant::min();
  bool begun_ = false;
  // What the counters of the spread traffic exceed those of the observation by. Modulo 2^64.
  std::uint64_t arrivals_ = 0, input_tokens_ = 0, output_tokens_ = 0;
  std::uint64_t output_seen_ = 0, arrivals_seen_ = 0;
};

}  // namespace penstock::planner
