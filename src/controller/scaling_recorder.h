// Outcomes of requests during changes of the fleet, which should not affect any client.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <vector>

#include "core/time.h"
#include "signals/observation.h"
#include "signals/request_ends.h"

namespace penstock::controller {

// A change of one pool: from the first to the last call of observe() at which its replicas differ from its target,
// start or drain.
struct ScalingEvent {
  std::string pool;
  std::uint32_t from = 0, to = 0;  // Ready replicas before the change; the target.
  core::Instant began;
  core::Instant settled = core::kNever;  // kNever while in progress.
  signals::RequestEnds ends;             // Of all requests that ended meanwhile, on any replica.
};

// Of one pool since the start, including a change in progress.
struct ScalingTotals {
  std::string pool;
  std::uint64_t events = 0;
  signals::RequestEnds ends;
};

class ScalingRecorder {
 public:
  // Ends of requests are reported with a delay: they count until a pool has been settled for this time.
  static constexpr core::Duration kAfter = std::chrono::seconds{2};

  explicit ScalingRecorder(std::size_t events_max = 50) : events_max_(events_max) {}

  // `ends` are those of all requests so far, which never fall. To be called about every second, with the same pools.
  void observe(core::Instant now, std::span<const signals::PoolObservation> pools, const signals::RequestEnds& ends);

  [[nodiscard]] std::vector<ScalingEvent> events() const;  // Changes in progress first, then the newest.
  [[nodiscard]] std::vector<ScalingTotals> totals() const;

 private:
  struct Pool {
    std::uint32_t ready = 0;  // When it was last settled.
    bool in_progress = false;
    ScalingEvent event;
    core::Instant quiet_since = core::kNever;
    signals::RequestEnds before;
    ScalingTotals totals;  // Without a change in progress.
  };
  std::size_t events_max_;
  std::vector<Pool> pools_;
  std::deque<ScalingEvent> settled_;  // Newest first.
};

}  // namespace penstock::controller
