#include "evaluation/chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>
#include <vector>

#include "evaluation/svg.h"
#include "report/format.h"
#include "report/ranking.h"

namespace penstock::evaluation {

using namespace report;
namespace {

constexpr double kWidth = 900.0, kHeight = 480.0;
constexpr double kLeft = 86.0, kRight = 590.0, kTop = 56.0, kBottom = 420.0;  // Edges of the plot.
constexpr double kLegend = 620.0;                                             // its left edge
constexpr std::string_view kInk = "#1f2933", kFaint = "#e4e7eb", kGrey = "#616e7c", kFixed = "#9aa5b1";
constexpr std::string_view kOurs = "#c2410c", kForeseen = "#15803d", kRule = "#1d4ed8";
constexpr std::array kAttainments = {0.0, 0.5, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.998, 0.999, 0.9995, 0.9999};

// The least of 1, 2 and 5 times a power of ten that cuts `range` into at most eight parts.
double tick_width(double range) {
  double width = std::pow(10.0, std::floor(std::log10(std::max(range, 1e-9) / 8.0)));
  for (const double factor : {2.0, 2.5, 2.0})
    if (range / width > 8.0) width *= factor;
  return width;
}

class Chart {
 public:
  Chart(const Evaluation& evaluation, const TraceEvaluation& trace)
      : evaluation_(evaluation),
        trace_(trace),
        ranked_(rank(trace.results)),
        svg_(kWidth, kHeight, trace.title + ": SLO attainment against GPU-hours", description(evaluation)) {
    double best = 0.9;
    for (const decision::RunResult& run : trace.results) {
      hours_max_ = std::max(hours_max_, run.gpu_hours * 1.08);
      if (run.slo_attainment < 1.0) best = std::max(best, run.slo_attainment);
    }
    for (const decision::RunResult& fleet : trace.frontier)
      if (fleet.slo_attainment < 1.0) best = std::max(best, fleet.slo_attainment);
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
    draw_frontier();
    draw_policies();
    return svg_.str();
  }

 private:
  static std::string description(const Evaluation& evaluation) {
    return "static fleets as a line, policies as dots; up and to the left is better; under test: " + evaluation.policy;
  }

  [[nodiscard]] double x_of(double gpu_hours) const { return kLeft + (kRight - kLeft) * gpu_hours / hours_max_; }
  [[nodiscard]] double y_of(double attainment) const {
    const double misses = std::clamp(1.0 - attainment, misses_min_, 1.0);
    return kBottom - (kBottom - kTop) * std::log(misses) / std::log(misses_min_);
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

  // What the verdicts compare with, so that a dot above the line is a dot above the frontier.
  void draw_frontier() {
    constexpr int kSteps = 240;
    std::vector<SvgPoint> line;
    if (trace_.frontier.empty()) return;
    for (int i = 0; i <= kSteps; ++i) {
      const double hours = hours_max_ * i / kSteps;
      line.push_back({x_of(hours), y_of(frontier_attainment(trace_.frontier, hours))});
    }
    svg_.path(line, {kFixed, 2.0, "5 3"});
    for (const decision::RunResult& fleet : trace_.frontier)
      if (fleet.gpu_hours <= hours_max_)
        svg_.circle({x_of(fleet.gpu_hours), y_of(fleet.slo_attainment)}, 3, kFixed, {"#ffffff"});
  }

  [[nodiscard]] std::string_view colour_of(const decision::RunResult& run) const {
    if (run.policy == evaluation_.policy) return kOurs;
    if (run.policy == "clairvoyant") return kForeseen;
    return run.policy == "static" ? kGrey : kRule;
  }

  void draw_dot(SvgPoint at, std::size_t number, const decision::RunResult& run) {
    const bool ours = run.policy == evaluation_.policy;
    svg_.circle(at, ours ? 10 : 8, colour_of(run), {"#ffffff", 1.5});
    svg_.text({at.x, at.y + 3.5}, fmt::format("{}", number),
              {.size = 10, .colour = "#ffffff", .anchor = "middle", .bold = true});
  }

  void draw_policies() {
    // The worst first, so that the best lies on top; the policy under test last of all.
    for (const bool ours : {false, true})
      for (std::size_t i = ranked_.size(); i-- > 0;) {
        const decision::RunResult& run = *ranked_[i].result;
        if ((run.policy == evaluation_.policy) == ours)
          draw_dot({x_of(run.gpu_hours), y_of(run.slo_attainment)}, i + 1, run);
      }
    double y = kTop + 6;
    for (std::size_t i = 0; i < ranked_.size(); ++i, y += 22) {
      const decision::RunResult& run = *ranked_[i].result;
      const bool ours = run.policy == evaluation_.policy;
      draw_dot({kLegend, y}, i + 1, run);
      svg_.text({kLegend + 16, y + 4}, ranked_[i].label, {.colour = kInk, .bold = ours});
      svg_.text({kWidth - 72, y + 4}, fmt::format("{:.2f} %", run.slo_attainment * 100.0),
                {.colour = kInk, .anchor = "end", .bold = ours});
      svg_.text({kWidth - 14, y + 4}, format_quantity(run.gpu_hours) + " h",
                {.colour = kInk, .anchor = "end", .bold = ours});
    }
    svg_.line({kLegend - 9, y}, {kLegend + 9, y}, {kFixed, 2.0, "5 3"});
    svg_.circle({kLegend, y}, 3, kFixed, {"#ffffff"});
    svg_.text({kLegend + 16, y + 4}, "static fleets, one replica more each", {.colour = kInk});
  }

  const Evaluation& evaluation_;
  const TraceEvaluation& trace_;
  std::vector<RankedResult> ranked_;
  Svg svg_;
  double hours_max_ = 0.1;
  double misses_min_ = 0.01;  // at the upper edge
};

}  // namespace

std::string attainment_chart(const Evaluation& evaluation, const TraceEvaluation& trace) {
  return Chart{evaluation, trace}.draw();
}

}  // namespace penstock::evaluation
