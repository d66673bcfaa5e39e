// Load of the fleet by minutes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <optional>

#include "core/state_archive.h"
#include "core/time.h"
#include "signals/observation.h"

namespace penstock::planner {

// Weight of an output token relative to a prompt token: what it adds to the load of an engine.
inline constexpr double kOutputTokenLoad = 3.0;

// A minute that has ended. Load is measured in weighted tokens per second over ten seconds, which is the time scale on
// which a queue makes requests late; the mean of a minute hides the bursts that decide about its requests.
struct LoadMinute {
  double peak = 0.0;  // The largest load of its ten-second windows.
  double mean = 0.0;
  double requests = 0.0;  // Arrivals.
  void archive(core::StateArchive& state) { state.values_of(peak, mean, requests); }
};

// Minutes that a time takes, rounded up; at least 0.
[[nodiscard]] constexpr std::uint64_t minutes_up(core::Duration time) {
  const core::Duration positive = std::max(time, core::Duration{});
  return static_cast<std::uint64_t>((positive + core::kMinute - core::Duration{1}) / core::kMinute);
}

// Output tokens of a request on average; an assumed length until one has completed.
[[nodiscard]] double mean_output_tokens(const signals::TrafficWindow& window);

class LoadHistory {
 public:
  // Called every tick with the traffic of the pools at which requests enter, and the output tokens that engines have
  // generated, 0 if they do not report them. Returns the minute that has ended, if one has. Intervals with a clock jump
  // or a counter reset are left out.
  std::optional<LoadMinute> observe(core::Instant now, const signals::FleetTraffic& traffic,
                                    std::uint64_t generated_tokens = 0);
  // The largest load of ten seconds that ended in (from, to], of the last 20 minutes; 0 without any.
  [[nodiscard]] double peak(core::Instant from, core::Instant to) const;

  void archive(core::StateArchive& state) {
    state("load_history", recent_, minute_, minute_from_, seen_at_, arrivals_, input_tokens_, generated_tokens_);
  }

 private:
  struct Interval {
    core::Instant from, to;
    double tokens = 0.0;
    void archive(core::StateArchive& state) { state.values_of(from, to, tokens); }
  };
  [[nodiscard]] double latest() const;

  std::deque<Interval> recent_;  // One entry per tick.
  LoadMinute minute_;            // The current one.
  core::Instant minute_from_{}, seen_at_{};
  std::uint64_t arrivals_ = 0, input_tokens_ = 0, generated_tokens_ = 0;
};

}  // namespace penstock::planner
