// The last minute as slices of five seconds.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "core/sketch.h"
#include "core/time.h"
#include "signals/observation.h"

namespace penstock::signals {

// A `Slice` starts as Slice{}. Moments that are older than a minute overwrite newer ones, so they must not be added.
template <class Slice>
class MinuteSlices {
 public:
  // Returns the slice of this moment.
  [[nodiscard]] Slice& at(core::Instant moment) {
    const std::int64_t index = moment.time_since_epoch() / kWidth;
    Entry& entry = entries_[static_cast<std::size_t>(index) % kCount];
    if (entry.index != index) entry = {index, Slice{}};
    return entry.slice;
  }
  // Calls `use` with each slice of the minute that ends at `now`. Returns how long that minute is: less at the start of
  // a run.
  template <class Use>
  core::Duration each(core::Instant now, Use use) const {
    const std::int64_t last = now.time_since_epoch() / kWidth;
    const std::int64_t first = std::max<std::int64_t>(0, last - static_cast<std::int64_t>(kCount) + 1);
    for (const Entry& entry : entries_)
      if (entry.index >= first && entry.index <= last) use(entry.slice);
    return now.time_since_epoch() - first * kWidth;
  }

 private:
  static constexpr core::Duration kWidth = std::chrono::seconds{5};
  static constexpr std::size_t kCount = 12;
  struct Entry {
    std::int64_t index = -1;
    Slice slice;
  };
  std::array<Entry, kCount> entries_;
};

[[nodiscard]] inline LatencyWindow latency_window(const core::QuantileSketch& sketch_ms) {
  return {sketch_ms.count(),        sketch_ms.mean(),         sketch_ms.quantile(0.50),
          sketch_ms.quantile(0.90), sketch_ms.quantile(0.95), sketch_ms.quantile(0.99)};
}

}  // namespace penstock::signals
