// The recent points of a series, and what came to pass over a stretch of them.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/state_archive.h"

namespace penstock::forecast {

// What a series did over a stretch of time: the quantities that are forecast.
struct Outcome {
  double level = 0.0;  // mean
  double peak = 0.0;   // greatest mean over a window of `peak_steps` intervals that lies within
  void archive(core::StateArchive& state) { state.values_of(level, peak); }
};

// The level and the peak of expected values, one an interval. `values` is not empty; a peak window longer than the
// stretch is cut to it.
[[nodiscard]] Outcome outcome_of(const double* values, std::size_t count, std::size_t peak_steps);

class History {
 public:
  explicit History(std::size_t steps) : values_(steps), steps_(steps, kNothing) {}

  void put(std::int64_t step, double value);
  void clear();

  // Over the steps (after, through], the last `steps` at most; none when less than half of them were seen. Missing
  // steps count neither in the mean nor in the peak. Linear in the stretch.
  [[nodiscard]] std::optional<Outcome> outcome(std::int64_t after, std::int64_t through, std::size_t peak_steps) const;

  void archive(core::StateArchive& state);

 private:
  static constexpr std::int64_t kNothing = INT64_MIN;
  [[nodiscard]] std::size_t slot_of(std::int64_t step) const;
  [[nodiscard]] bool has(std::int64_t step) const { return steps_[slot_of(step)] == step; }

  std::vector<double> values_;
  std::vector<std::int64_t> steps_;  // which step a slot holds
};

}  // namespace penstock::forecast
