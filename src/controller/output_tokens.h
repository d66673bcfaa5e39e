// The output tokens of a pool: by the counters of its engines, when the tokens are generated, as in a simulated fleet.
// Without such counters, by the answers that ended, because a gateway reports the tokens of an answer at its end.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <utility>

#include "core/time.h"
#include "signals/observation.h"

namespace penstock::controller {

// Not thread-safe.
class OutputTokens {
 public:
  // An answer ended; without effect once an engine has reported a counter.
  void ended(std::uint64_t tokens, core::Instant at);
  // Takes the counters that the replicas report. The first counter of a replica that was not seen starting counts from
  // its value.
  void observe(const signals::PoolObservation& pool, core::Instant now);

  // Of all replicas since the start, also of those that are gone.
  [[nodiscard]] std::uint64_t total() const { return total_; }
  // Of the last `length` before now, a minute at most.
  [[nodiscard]] std::uint64_t within(core::Duration length, core::Instant now) const;

 private:
  void add(std::uint64_t tokens, core::Instant at);

  std::map<std::uint32_t, std::uint64_t> counters_;             // The last one of each replica of the pool.
  std::deque<std::pair<core::Instant, std::uint64_t>> totals_;  // Oldest first.
  std::uint64_t total_ = 0;
  bool by_counters_ = false;
};

}  // namespace penstock::controller
