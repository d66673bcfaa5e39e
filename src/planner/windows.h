// Values of the recent past, for rules that average or bound over a window of time.
#pragma once

#include <algorithm>
#include <deque>
#include <optional>

#include "core/state_archive.h"
#include "core/time.h"

namespace penstock::planner {

// Values with timestamps, added in order of time; values older than the span are dropped. A window of length w at `now`
// contains the timestamps in (now - w, now]. Cost is linear in the values kept.
class TimedValues {
 public:
  explicit TimedValues(core::Duration span) : span_(span) {}

  void add(core::Instant at, double value) {
    values_.push_back({at, value});
    while (values_.front().at <= at - span_) values_.pop_front();
  }

  // Empty if the window contains no value.
  [[nodiscard]] std::optional<double> mean(core::Instant now, core::Duration window) const {
    double sum = 0.0;
    double count = 0.0;
    for (const Entry& entry : values_) {
      if (entry.at <= now - window) continue;
      sum += entry.value;
      count += 1.0;
    }
    return count > 0.0 ? std::optional{sum / count} : std::nullopt;
  }
  [[nodiscard]] std::optional<double> max(core::Instant now, core::Duration window) const {
    std::optional<double> greatest;
    for (const Entry& entry : values_)
      if (entry.at > now - window) greatest = std::max(greatest.value_or(entry.value), entry.value);
    return greatest;
  }

  void archive(core::StateArchive& state) { state.values_of(values_); }

 private:
  struct Entry {
    core::Instant at;
    double value = 0.0;
    void archive(core::StateArchive& state) { state.values_of(at, value); }
  };
  core::Duration span_;
  std::deque<Entry> values_;
};

}  // namespace penstock::planner
