#include "profiling/measured_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "core/format.h"
#include "core/time.h"
#include "engine/decode_growth.h"

namespace penstock::profiling {
namespace {

using engine::ProfilePoint;

constexpr double kMsLeast = 1e-3;

// Replaces falling neighbours by their mean.
void make_ascending(std::vector<ProfilePoint>& points) {
  struct Block {
    double sum = 0.0;
    std::size_t count = 0;
    [[nodiscard]] double mean() const { return sum / static_cast<double>(count); }
  };
  std::vector<Block> blocks;
  for (const ProfilePoint& point : points) {
    blocks.push_back({point.ms, 1});
    while (blocks.size() > 1 && blocks[blocks.size() - 2].mean() > blocks.back().mean()) {
      blocks[blocks.size() - 2].sum += blocks.back().sum;
      blocks[blocks.size() - 2].count += blocks.back().count;
      blocks.pop_back();
    }
  }
  std::size_t at = 0;
  for (const Block& block : blocks)
    for (std::size_t i = 0; i < block.count; ++i) points[at++].ms = block.mean();
}

double secant(const std::vector<ProfilePoint>& points, std::size_t i) {
  return (points[i + 1].ms - points[i].ms) / (points[i + 1].x - points[i].x);
}

// Slope of the monotone cubic at a point, by the weighted harmonic mean of its secants.
double slope(const std::vector<ProfilePoint>& points, std::size_t i) {
  if (points.size() == 2) return secant(points, 0);
  const std::size_t last = points.size() - 1;
  const auto end_slope = [&](std::size_t near, std::size_t far) {
    const double h0 = points[near + 1].x - points[near].x, h1 = points[far + 1].x - points[far].x;
    const double d0 = secant(points, near), d1 = secant(points, far);
    const double made = ((2.0 * h0 + h1) * d0 - h0 * d1) / (h0 + h1);
    if (made * d0 <= 0.0) return 0.0;
    return d0 * d1 <= 0.0 && std::abs(made) > 3.0 * std::abs(d0) ? 3.0 * d0 : made;
  };
  if (i == 0) return end_slope(0, 1);
  if (i == last) return end_slope(last - 1, last - 2);
  const double before = secant(points, i - 1), after = secant(points, i);
  if (before * after <= 0.0) return 0.0;
  const double h0 = points[i].x - points[i - 1].x, h1 = points[i + 1].x - points[i].x;
  const double w1 = 2.0 * h1 + h0, w2 = h1 + 2.0 * h0;
  return (w1 + w2) / (w1 / before + w2 / after);
}

double on_curve(const std::vector<ProfilePoint>& points, double x) {
  const std::size_t last = points.size() - 1;
  if (last == 0) return points.front().ms;
  if (x <= points.front().x) return points.front().ms - secant(points, 0) * (points.front().x - x);
  if (x >= points.back().x) return points.back().ms + std::max(0.0, secant(points, last - 1)) * (x - points.back().x);
  const auto above = std::upper_bound(points.begin(), points.end(), x, [](double v, const auto& p) { return v < p.x; });
  const auto i = static_cast<std::size_t>(above - points.begin()) - 1;
  const double h = points[i + 1].x - points[i].x, t = (x - points[i].x) / h, s = 1.0 - t;
  return s * s * (1.0 + 2.0 * t) * points[i].ms + t * t * (3.0 - 2.0 * t) * points[i + 1].ms +
         h * s * t * (s * slope(points, i) - t * slope(points, i + 1));
}

std::optional<core::Error> check(const std::string& what, double x, double ms) {
  if (x > 0.0 && x <= 1e12 && ms > 0.0 && ms <= 1e9) return std::nullopt;
  return core::Error{core::ErrorCode::kInvalidInput, what, fmt::format("must be a time above 0, is {} ms", ms), {}};
}

std::string tokens_text(double tokens) { return core::format_count(static_cast<std::uint64_t>(std::llround(tokens))); }

void sort_points(std::vector<ProfilePoint>& points) {
  std::sort(points.begin(), points.end(), [](const auto& a, const auto& b) { return a.x < b.x; });
}
bool has_twice(const std::vector<ProfilePoint>& points) {
  return std::adjacent_find(points.begin(), points.end(), [](const auto& a, const auto& b) { return a.x == b.x; }) !=
         points.end();
}

}  // namespace

core::Result<MeasuredModel> MeasuredModel::make(const MeasuredPoints& points) {
  MeasuredModel model;
  for (const MeasuredPrompt& prompt : points.prompts) {
    if (auto wrong = check("prompt of " + tokens_text(prompt.tokens) + " tokens", prompt.tokens, prompt.ttft_ms))
      return tl::make_unexpected(*wrong);
    model.ttft_.push_back({prompt.tokens, prompt.ttft_ms});
  }
  if (model.ttft_.size() < 2) return core::invalid_input("prompts", "fewer than two lengths were measured");
  sort_points(model.ttft_);
  if (has_twice(model.ttft_)) return core::invalid_input("prompts", "a length was measured twice");
  make_ascending(model.ttft_);

  std::map<double, Line> lines;
  for (const MeasuredStep& step : points.steps) {
    const std::string what =
        fmt::format("decode step of {} sequences of {} tokens", step.sequences, tokens_text(step.line_tokens));
    if (auto wrong = check(what, std::min(step.sequences, step.context_tokens), step.step_ms))
      return tl::make_unexpected(*wrong);
    Line& line = lines[step.line_tokens];
    line.points.push_back({step.sequences, step.step_ms});
    line.context_tokens += step.context_tokens;
  }
  if (lines.empty()) return core::invalid_input("decode steps", "none was measured");
  for (auto& [planned, line] : lines) {
    line.context_tokens /= static_cast<double>(line.points.size());
    sort_points(line.points);
    const std::string what = "decode steps of " + tokens_text(planned) + " tokens";
    if (has_twice(line.points)) return core::invalid_input(what, "a number of sequences was measured twice");
    if (line.points.front().x != 1.0) return core::invalid_input(what, "a step of one sequence was not measured");
    make_ascending(line.points);
    model.lines_.push_back(std::move(line));
  }
  const auto out_of_order =
      std::adjacent_find(model.lines_.begin(), model.lines_.end(),
                         [](const auto& a, const auto& b) { return a.context_tokens >= b.context_tokens; });
  if (out_of_order != model.lines_.end())
    return core::invalid_input("decode steps", "the measured contexts do not follow the planned ones");
  return model;
}

double MeasuredModel::on_line(std::size_t line, double sequences) const {
  const auto& points = lines_[line].points;
  // A context of which only one sequence fits grows like the one below it.
  if (points.size() == 1 && line > 0)
    return points.front().ms + on_line(line - 1, sequences) - on_line(line - 1, points.front().x);
  return on_curve(points, sequences);
}

double MeasuredModel::decode_ms(double sequences, double context_tokens) const {
  std::vector<ProfilePoint> across;
  for (std::size_t i = 0; i < lines_.size(); ++i) across.push_back({lines_[i].context_tokens, on_line(i, sequences)});
  return std::max(kMsLeast, on_curve(across, context_tokens));
}

double MeasuredModel::prefill_ms(double tokens) const { return std::max(kMsLeast, on_curve(ttft_, tokens)); }

double MeasuredModel::prefill_added_ms(double tokens) const {
  return std::max(kMsLeast, prefill_ms(tokens) - decode_ms(0.0, tokens));
}

double MeasuredModel::most_sequences() const {
  double most = 0.0;
  for (const Line& line : lines_) most = std::max(most, line.points.back().x);
  return most;
}

double MeasuredModel::most_kv_tokens() const {
  double most = 0.0;
  for (const Line& line : lines_) most = std::max(most, line.points.back().x * line.context_tokens);
  return most;
}

core::Duration MeasuredModel::step(const engine::StepShape& shape) const {
  const auto fresh = static_cast<double>(shape.prefill_new_tokens);
  double ms = 0.0;
  if (shape.decode_sequences == 0) {
    ms = prefill_ms(fresh);
  } else {
    if (shape.prefill_new_tokens > 0) ms = prefill_added_ms(fresh);
    ms += decode_ms(shape.decode_sequences,
                    static_cast<double>(shape.decode_context_tokens) / static_cast<double>(shape.decode_sequences));
  }
  return engine::whole_nanoseconds(ms * 1e6);
}

}  // namespace penstock::profiling
