// The age of an engine's queue: as the engine reports it, or estimated from what it counts.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>

#include "core/time.h"
#include "telemetry/adapters.h"

namespace penstock::telemetry {

// Receives the scrapes of one engine in their order. An engine that reports no age gets an estimate, the larger of two
// figures of the last half minute, and no more than the time since its queue was last empty:
//  - the mean time in the queue of the requests that left it (a histogram of queue times),
//  - the time that the queue takes at the rate at which requests leave (Little's law: queued / rate).
// If no request left the queue, the time since it was last empty counts.
class QueueAge {
 public:
  // 0 if no request waits; empty if the scrape does not show it. O(1) on average.
  [[nodiscard]] std::optional<core::Duration> observe(const EngineScrape& scrape, core::Instant at);

 private:
  struct Counts {
    core::Instant at;
    std::uint64_t left = 0;  // Requests that left the queue, or the engine.
    double waited_s = 0.0;   // Sum of their times in the queue, if the engine reports it.
    bool has_times = false;
  };
  [[nodiscard]] static std::optional<Counts> counts_of(const EngineScrape& scrape, core::Instant at);

  std::deque<Counts> counts_;
  std::optional<core::Instant> empty_at_;   // The queue was last empty.
  std::optional<core::Instant> filled_at_;  // The first scrape with a queue since then.
};

}  // namespace penstock::telemetry
