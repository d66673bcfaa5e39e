// Charts of a run over time.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "load/tally.h"

namespace penstock::load {

struct Series {
  std::string_view name, colour;                                  // A CSS colour, "var(--first)".
  std::function<std::optional<double>(const TimeSlot&)> value{};  // Empty values leave a gap in the line.
};
struct TimeChart {
  std::string_view title;
  std::function<std::string(double)> label;  // Formats a value of the axis.
  std::vector<Series> series;
};

// Returns SVG that uses the page's colours.
[[nodiscard]] std::string draw(const TimeChart& chart, const Tally& tally);

}  // namespace penstock::load
