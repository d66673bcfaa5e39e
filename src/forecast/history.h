// The recent points of a series, and the outcome over a range of them.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/state_archive.h"

namespace penstock::forecast {

// The forecast quantities of a series over a time range.
struct Outcome {
  double level = 0.0;  // Mean.
  double peak = 0.0;   // Highest mean over a window of `peak_steps` intervals within the range.
  void archive(core::StateArchive& state) { state.values_of(level, peak); }
};

// Computes level and peak of expected values, one per interval. `values` must not be empty; the peak window is limited
// to the range.
[[nodiscard]] Outcome outcome_of(const double* values, std::size_t count, std::size_t peak_steps);

class History {
 public:
  explicit History(std::size_t steps) : values_(steps), steps_(steps, kEmpty) {}

  void add(std::int64_t step, double value);
  void clear();

  // Outcome over the steps (after, through], at most the last `steps`; empty if less than half of them were observed.
  // Missing steps count neither in the mean nor in the peak. Linear in the range.
  [[nodiscard]] std::optional<Outcome> outcome(std::int64_t after, std::int64_t through, std::size_t peak_steps) const;

  void archive(core::StateArchive& state);

 private:
  static constexpr std::int64_t kEmpty = INT64_MIN;
  [[nodiscard]] std::size_t slot_of(std::int64_t step) const;
  [[nodiscard]] bool has(std::int64_t step) const { return steps_[slot_of(step)] == step; }

  std::vector<double> values_;
  std::vector<std::int64_t> steps_;  // Step that each slot holds.
};

}  // namespace penstock::forecast
