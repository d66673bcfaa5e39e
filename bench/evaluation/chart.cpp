#include "evaluation/chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "evaluation/svg.h"
#include "report/format.h"

namespace penstock::evaluation {

using namespace report;
namespace {

constexpr double kWidth = 900.0, kHeight = 480.0;
constexpr double kLeft = 86.0, kRight = 610.0, kTop = 56.0, kBottom = 420.0;  // Edges of the plot.
constexpr double kLegend = 640.0;                                             // Its left edge.
constexpr std::string_view kInk = "#1f2933", kFaint = "#e4e7eb", kGrey = "#616e7c", kFixed = "#9aa5b1";
constexpr std::string_view kOurs = "#c2410c", kForeseen = "#15803d";
constexpr std::array<std::string_view, 7> kPeers = {"#1d4ed8", "#7c3aed", "#0e7490", "#be185d",
                                                    "#4d7c0f", "#a16207", "#475569"};
constexpr std::array kAttainments = {0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.998, 0.999, 0.9995, 0.9999};
constexpr double kLowest = 0.8;       // At the lower edge; runs below are left out.
constexpr double kHoursBeyond = 1.6;  // Of the most expensive line's GPU-hours at 99 %; runs beyond are left out.

// The least of 1, 2 and 5 times a power of ten that cuts `range` into at most eight parts.
double tick_width(double range) {
  double width = std::pow(10.0, std::floor(std::log10(std::max(range, 1e-9) / 8.0)));
  for (const double factor : {2.0, 2.5, 2.0})
    if (range / width > 8.0) width *= factor;
  return width;
}

struct Line {
  std::string name;
  std::string_view colour, dashes;
  bool bold = false;
  std::vector<Point> points;
};

Line line_of(std::string name, std::string_view colour, std::span<const Run> runs) {
  Line line{std::move(name), colour, {}, false, {}};
  for (const Run& run : runs) line.points.push_back({run.attainment, run.gpu_hours});
  return line;
}

bool is_shown(const PolicyRuns& peer) {
  return std::any_of(peer.runs.begin(), peer.runs.end(), [](const Run& run) { return run.attainment >= 0.9; });
}

// Penstock last, so that it lies on top.
std::vector<Line> lines_of(const TraceEvaluation& trace) {
  std::vector<Line> lines;
  lines.push_back(line_of("fixed fleets", kFixed, trace.fixed.runs));
  lines.back().dashes = "5 3";
  std::size_t next = 0;
  for (const PolicyRuns& peer : trace.peers)
    if (is_shown(peer)) {
      lines.push_back(line_of(peer.policy, kPeers[next % kPeers.size()], peer.runs));
      if (next++ >= kPeers.size()) lines.back().dashes = "2 3";
    }
  lines.push_back(line_of("clairvoyant", kForeseen, trace.oracle));
  lines.push_back(line_of("penstock", kOurs, trace.penstock.runs));
  lines.back().bold = true;
  return lines;
}

class Chart {
 public:
  explicit Chart(const TraceEvaluation& trace)
      : trace_(trace),
        lines_(lines_of(trace)),
        svg_(kWidth, kHeight, trace.title + ": SLO attainment against GPU-hours",
             "lines of policies over their settings; up and to the left is better") {
    double best = 0.9, dearest = 0.0, any = 0.1;
    for (const Line& line : lines_) {
      const auto cost = cost_at(efficient(line.points), kGoal);
      if (cost) dearest = std::max(dearest, cost->gpu_hours);
      for (const Point& point : line.points) {
        any = std::max(any, point.gpu_hours);
        if (point.attainment < 1.0) best = std::max(best, point.attainment);
      }
    }
    hours_max_ = dearest > 0.0 ? std::min(any * 1.05, dearest * kHoursBeyond) : any * 1.05;
    misses_min_ = std::max(5e-5, (1.0 - best) * 0.7);
  }

  std::string draw() {
    svg_.rectangle({0, 0}, kWidth, kHeight, "#ffffff");
    svg_.text({kLeft, 24}, trace_.title, {.size = 16, .colour = kInk, .bold = true});
    svg_.text({kLeft, 42},
              fmt::format("{} requests in {}, x{:g} the recorded rate", format_count(trace_.info.requests),
                          format_seconds(core::to_seconds(trace_.info.duration)), trace_.info.rate_scale),
              {.size = 12, .colour = kGrey});
    draw_axes();
    for (const Line& line : lines_) draw_line(line);
    draw_legend();
    return svg_.str();
  }

 private:
  [[nodiscard]] double x_of(double gpu_hours) const { return kLeft + (kRight - kLeft) * gpu_hours / hours_max_; }
  [[nodiscard]] double y_of(double attainment) const {
    const double misses = std::clamp(1.0 - attainment, misses_min_, 1.0 - kLowest);
    const double share = std::log(misses / (1.0 - kLowest)) / std::log(misses_min_ / (1.0 - kLowest));
    return kBottom - (kBottom - kTop) * share;
  }
  [[nodiscard]] bool is_inside(const Point& point) const {
    return point.attainment >= kLowest && point.gpu_hours <= hours_max_;
  }

  void draw_axes() {
    for (const double attainment : kAttainments) {
      if (1.0 - attainment < misses_min_) continue;
      const double y = y_of(attainment);
      svg_.line({kLeft, y}, {kRight, y}, {kFaint});
      svg_.text({kLeft - 8, y + 4}, fmt::format("{:g} %", attainment * 100.0), {.colour = kGrey, .anchor = "end"});
    }
    const double width = tick_width(hours_max_);
    for (int i = 0; i * width <= hours_max_; ++i) {
      svg_.line({x_of(i * width), kBottom}, {x_of(i * width), kBottom + 5}, {kGrey});
      svg_.text({x_of(i * width), kBottom + 20}, fmt::format("{:g}", i * width), {.colour = kGrey, .anchor = "middle"});
    }
    svg_.line({kLeft, kBottom}, {kRight, kBottom}, {kGrey});
    svg_.text({(kLeft + kRight) / 2, kBottom + 42}, "GPU-hours", {.size = 13, .colour = kInk, .anchor = "middle"});
    svg_.text_upwards({20, (kTop + kBottom) / 2}, "SLO attainment", {.size = 13, .colour = kInk, .anchor = "middle"});
  }

  void draw_line(const Line& line) {
    std::vector<SvgPoint> path;
    for (const Point& point : efficient(line.points))
      if (is_inside(point)) path.push_back({x_of(point.gpu_hours), y_of(point.attainment)});
    if (path.size() > 1) svg_.path(path, {line.colour, line.bold ? 3.0 : 1.5, line.dashes});
    for (const Point& point : line.points)
      if (is_inside(point))
        svg_.circle({x_of(point.gpu_hours), y_of(point.attainment)}, line.bold ? 5 : 3, line.colour, {"#ffffff"});
  }

  void draw_legend() {
    svg_.text({kWidth - 14, kTop - 14}, "at 99 %", {.size = 11, .colour = kGrey, .anchor = "end"});
    double y = kTop + 6;
    for (auto line = lines_.rbegin(); line != lines_.rend(); ++line, y += 22) {
      svg_.line({kLegend - 9, y}, {kLegend + 9, y}, {line->colour, line->bold ? 3.0 : 1.5, line->dashes});
      svg_.circle({kLegend, y}, line->bold ? 5 : 3, line->colour, {"#ffffff"});
      svg_.text({kLegend + 16, y + 4}, line->name, {.colour = kInk, .bold = line->bold});
      const auto cost = cost_at(efficient(line->points), kGoal);
      svg_.text({kWidth - 14, y + 4}, cost ? format_quantity(cost->gpu_hours) + " h" : "–",
                {.colour = kInk, .anchor = "end", .bold = line->bold});
    }
  }

  const TraceEvaluation& trace_;
  std::vector<Line> lines_;
  Svg svg_;
  double hours_max_ = 0.1;
  double misses_min_ = 0.01;  // At the upper edge.
};

}  // namespace

std::string attainment_chart(const TraceEvaluation& trace) { return Chart{trace}.draw(); }

}  // namespace penstock::evaluation
