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
  // Rounding must not make the peak smaller than the mean.
  return {level, std::max(level, highest / static_cast<double>(width))};
}

std::size_t History::slot_of(std::int64_t step) const {
  const auto size = static_cast<std::int64_t>(values_.size());
  return static_cast<std::size_t>(((step % size) + size) % size);
}

void History::add(std::int64_t step, double value) {
  const std::size_t slot = slot_of(step);
  values_[slot] = value;
  steps_[slot] = step;
}

void History::archive(core::StateArchive& state) {
  std::vector<std::pair<std::int64_t, double>> points;
  for (std::size_t slot = 0; slot < steps_.size(); ++slot)
    if (steps_[slot] != kEmpty) points.emplace_back(steps_[slot], values_[slot]);
  state("history", points);
  if (!state.reading()) return;
  clear();
  for (const auto& [step, value] : points) add(step, value);
}

void History::clear() { std::fill(steps_.begin(), steps_.end(), kEmpty); }

std::optional<Outcome> History::outcome(std::int64_t after, std::int64_t through, std::size_t peak_steps) const {
  const auto count = static_cast<std::size_t>(through - after);
  PENSTOCK_ASSERT(through > after && count <= values_.size(), "an outcome lies within the history");
  const std::size_t width = std::min(std::max<std::size_t>(peak_steps, 1), count);
  double sum = 0.0, window = 0.0, highest = 0.0;
  std::size_t observed = 0, observed_in_window = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::int64_t step = after + 1 + static_cast<std::int64_t>(i);
    if (has(step)) {
      const double value = values_[slot_of(step)];
      sum += value;
      window += value;
      ++observed;
      ++observed_in_window;
    }
    if (i >= width && has(step - static_cast<std::int64_t>(width))) {
      window -= values_[slot_of(step - static_cast<std::int64_t>(width))];
      --observed_in_window;
    }
    if (i + 1 >= width && 2 * observed_in_window >= width && observed_in_window > 0)
      highest = std::max(highest, window / static_cast<double>(observed_in_window));
  }
  if (2 * observed < count) return std::nullopt;
  const double level = sum / static_cast<double>(observed);
  return Outcome{level, std::max(level, highest)};
}

}  // namespace penstock::forecast
