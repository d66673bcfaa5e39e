// What became of requests while the fleet changed: nobody should feel it, and here it shows if somebody did.
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

// Of one pool: from the first look at which it had other replicas than its target, or some that start or drain, to the last.
struct ScalingEvent {
  std::string pool;
  std::uint32_t from = 0, to = 0;  // ready replicas before it; the target
  core::Instant began;
  core::Instant settled = core::kNever;  // kNever: it is under way
  signals::RequestEnds ends;             // of all requests that ended meanwhile, wherever they ran
};

struct ScalingTotals {  // of one pool, since the start, with what is under way
  std::string pool;
  std::uint64_t events = 0;
  signals::RequestEnds ends;
};

class ScalingRecorder {
 public:
  // What is cut as a replica stops is told of a moment later: ends count until a pool has been settled for so long.
  static constexpr core::Duration kAfter = std::chrono::seconds{2};

  explicit ScalingRecorder(std::size_t events_max = 50) : events_max_(events_max) {}

  // `ends` are those of all requests so far. To be called every second or so, with the same pools.
  void look(core::Instant now, std::span<const signals::PoolObservation> pools, const signals::RequestEnds& ends);

  [[nodiscard]] std::vector<ScalingEvent> events() const;  // what is under way first, then the newest
  [[nodiscard]] std::vector<ScalingTotals> totals() const;

 private:
  struct Pool {
    std::uint32_t ready = 0;  // when it was last settled
    bool under_way = false;
    ScalingEvent event;
    core::Instant quiet_since = core::kNever;
    signals::RequestEnds before;
    ScalingTotals totals;  // without what is under way
  };
  std::size_t events_max_;
  std::vector<Pool> pools_;
  std::deque<ScalingEvent> settled_;  // newest first
};

}  // namespace penstock::controller
