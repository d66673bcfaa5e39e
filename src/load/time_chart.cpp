#include "load/time_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "report/format.h"
#include "report/svg.h"

namespace penstock::load {
namespace {

using report::SvgPoint;

constexpr double kWidth = 640.0, kHeight = 240.0;
constexpr double kLeft = 66.0, kRight = 626.0, kTop = 44.0, kBottom = 208.0;  // Margins of the plot.
constexpr int kTicksMax = 6;
constexpr std::string_view kInk = "var(--ink)", kSoft = "var(--soft)", kLine = "var(--line)";

// Returns the smallest of 1, 2 and 5 times a power of ten that divides the range into at most the wanted number of
// parts.
double tick_width(double range) {
  double width = std::pow(10.0, std::floor(std::log10(std::max(range, 1e-9) / kTicksMax)));
  for (const double factor : {2.0, 2.5, 2.0})
    if (range / width > kTicksMax) width *= factor;
  return width;
}

struct Scale {
  double seconds, top;
  [[nodiscard]] double x(double second) const { return kLeft + (kRight - kLeft) * second / seconds; }
  [[nodiscard]] double y(double value) const { return kBottom - (kBottom - kTop) * value / top; }
};

void draw_axes(report::Svg& svg, const Scale& scale, const TimeChart& chart) {
  const double step = tick_width(scale.top);
  for (int i = 0; step * i <= scale.top * 1.0001; ++i) {
    const double y = scale.y(step * i);
    svg.line({kLeft, y}, {kRight, y}, {.colour = kLine});
    svg.text({kLeft - 6, y + 4}, chart.label(step * i), {.size = 11, .colour = kSoft, .anchor = "end"});
  }
  const double tick_s = tick_width(scale.seconds);
  for (int i = 0; tick_s * i <= scale.seconds * 1.0001; ++i)
    svg.text({scale.x(tick_s * i), kBottom + 18}, report::format_seconds(tick_s * i),
             {.size = 11, .colour = kSoft, .anchor = "middle"});
}

void draw_series(report::Svg& svg, const Scale& scale, const Series& series, const Tally& tally) {
  const double width_s = core::to_seconds(tally.slot_width());
  std::vector<SvgPoint> line;
  const auto flush = [&] {
    if (line.size() == 1)
      svg.circle(line.front(), 1.5, series.colour, {.colour = series.colour});
    else if (!line.empty())
      svg.path(line, {.colour = series.colour, .width = 1.8});
    line.clear();
  };
  for (std::size_t i = 0; i < tally.slots().size(); ++i) {
    if (const auto value = series.value(tally.slots()[i]))
      line.push_back({scale.x((static_cast<double>(i) + 0.5) * width_s), scale.y(*value)});
    else
      flush();
  }
  flush();
}

}  // namespace

std::string draw(const TimeChart& chart, const Tally& tally) {
  double top = 0.0;
  for (const TimeSlot& slot : tally.slots())
    for (const Series& series : chart.series) top = std::max(top, series.value(slot).value_or(0.0));
  const double slots = static_cast<double>(std::max<std::size_t>(tally.slots().size(), 1));
  const Scale scale{slots * core::to_seconds(tally.slot_width()), top > 0.0 ? top * 1.05 : 1.0};

  report::Svg svg{kWidth, kHeight, chart.title, fmt::format("highest value {}", chart.label(top))};
  svg.text({kLeft, 18}, chart.title, {.size = 14, .colour = kInk, .bold = true});
  double x = kRight;
  for (auto series = chart.series.rbegin(); series != chart.series.rend(); ++series) {
    svg.text({x, 18}, series->name, {.size = 12, .colour = series->colour, .anchor = "end", .bold = true});
    x -= 14.0 + 7.0 * static_cast<double>(report::display_width(series->name));
  }
  draw_axes(svg, scale, chart);
  for (const Series& series : chart.series) draw_series(svg, scale, series, tally);
  return svg.str();
}

}  // namespace penstock::load
