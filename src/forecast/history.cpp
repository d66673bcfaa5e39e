#include "forecast/history.h"

#include <algorithm>
#include <utility>

#include "core/result.h"

namespace penstock::forecast {

Outcome outcome_of(const double* values, std::size_t count, std::size_t peak_steps) {
  const std::size_t width = std::min(std::max<std::size_t>(peak_steps, 1), count);
  double sum = 0.0;
  double window = 0.0;
  double highest = 0.0;
  for (std::size_t i = 0; i < count; ++i) {
    sum += values[i];
    window += values[i];
    if (i >= width) window -= values[i - width];
    if (i + 1 == width || (i + 1 > width && window > highest)) highest = window;
  }
  const double level = sum / static_cast<double>(count);
  // Rounding must not put the peak below the mean.
  return {level, std::max(level, highest / static_cast<double>(width))};
}

std::size_t History::slot_of(std::int64_t step) const {
  const auto size = static_cast<std::int64_t>(values_.size());
  return static_cast<std::size_t>(((step % size) + size) % size);
}

void History::put(std::int64_t step, double value) {
  const std::size_t slot = slot_of(step);
  values_[slot] = value;
  steps_[slot] = step;
}

void History::archive(core::StateArchive& state) {
  std::vector<std::pair<std::int64_t, double>> points;
  for (std::size_t slot = 0; slot < steps_.size(); ++slot)
    if (steps_[slot] != kNothing) points.emplace_back(steps_[slot], values_[slot]);
  state("history", points);
  if (!state.reading()) return;
  clear();
  for (const auto& [step, value] : points) put(step, value);
}

void History::clear() { std::fill(steps_.begin(), steps_.end(), kNothing); }

std::optional<Outcome> History::outcome(std::int64_t after, std::int64_t through, std::size_t peak_steps) const {
  const auto count = static_cast<std::size_t>(through - after);
  PENSTOCK_ASSERT(through > after && count <= values_.size(), "an outcome lies within the history");
  const std::size_t width = std::min(std::max<std::size_t>(peak_steps, 1), count);
  double sum = 0.0, window = 0.0, highest = 0.0;
  std::size_t seen = 0, seen_in_window = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::int64_t step = after + 1 + static_cast<std::int64_t>(i);
    if (has(step)) {
      const double value = values_[slot_of(step)];
      sum += value;
      window += value;
      ++seen;
      ++seen_in_window;
    }
    if (i >= width && has(step - static_cast<std::int64_t>(width))) {
      window -= values_[slot_of(step - static_cast<std::int64_t>(width))];
      --seen_in_window;
    }
    if (i + 1 >= width && 2 * seen_in_window >= width && seen_in_window > 0)
      highest = std::max(highest, window / static_cast<double>(seen_in_window));
  }
  if (2 * seen < count) return std::nullopt;
  const double level = sum / static_cast<double>(seen);
  return Outcome{level, std::max(level, highest)};
}

}  // namespace penstock::forecast
