// Figures over the time of a run as a picture.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "load/tally.h"

namespace penstock::load {

struct Series {
  std::string_view name, colour;                                  // a colour of CSS, "var(--first)"
  std::function<std::optional<double>(const TimeSlot&)> value{};  // none: a gap in the line
};
struct TimeChart {
  std::string_view title;
  std::function<std::string(double)> label;  // of a value on the axis
  std::vector<Series> series;
};

// SVG; its colours are the page's.
[[nodiscard]] std::string draw(const TimeChart& chart, const Tally& tally);

}  // namespace penstock::load
