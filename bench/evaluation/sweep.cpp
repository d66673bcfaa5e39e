#include "evaluation/sweep.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

namespace penstock::evaluation {
namespace {

constexpr double kStep = 0.15, kStepMax = 0.4;  // Of the generosity, beyond the settings that were run.
constexpr double kNarrowest = 0.01;             // Closer settings do not differ by more than chance.
constexpr double kEdge = 0.15;                  // Least share of an interval on each side of a new setting.

// The scale on which settings are equally far apart.
double scale(const Axis& axis, double setting) {
  if (axis.kind == AxisKind::kShare) return -std::log(1.0 - setting);
  return std::log(axis.kind == AxisKind::kHeadroom ? 1.0 + setting : setting);
}

double rounded(const Axis& axis, double setting) {
  if (axis.kind == AxisKind::kCount) return std::max(1.0, std::round(setting));
  if (axis.kind == AxisKind::kHeadroom) return std::round(setting * 100.0) / 100.0;
  const bool goal = axis.kind == AxisKind::kShare;
  const double value = goal ? 1.0 - setting : setting;
  const double unit = std::pow(10.0, std::floor(std::log10(value)) - 1.0);
  const double two_digits = std::round(value / unit) * unit;
  return goal ? 1.0 - two_digits : two_digits;
}

class Sweep {
 public:
  Sweep(const Axis& axis, const SweepPlan& plan, const std::function<core::Result<Point>(double)>& run)
      : axis_(axis), plan_(plan), run_(run) {}

  core::Result<void> run() {
    for (const double setting : plan_.first)
      if (auto done = attempt(setting); !done) return done;
    while (tried_.size() < plan_.runs_max) {
      const std::optional<double> next = next_setting();
      if (!next) break;
      if (auto done = attempt(*next); !done) return done;
    }
    return {};
  }

 private:
  using Tried = std::map<double, Point>;  // By generosity.

  core::Result<void> attempt(double setting) {
    const double at = generosity(axis_, setting);
    if (tried_.contains(at)) return {};
    return run_(setting).map([&](const Point& point) { tried_.emplace(at, point); });
  }

  std::optional<double> next_setting() const {
    for (const double wanted : plan_.wanted) {
      const std::optional<double> at = next_for(wanted);
      if (!at) continue;
      const double setting = setting_at(axis_, *at);
      if (!tried_.contains(generosity(axis_, setting))) return setting;
    }
    return std::nullopt;
  }

  std::optional<double> next_for(double wanted) const {
    const auto above =
        std::find_if(tried_.begin(), tried_.end(), [&](const auto& each) { return each.second.attainment >= wanted; });
    if (above == tried_.end()) return beyond_most(wanted);
    if (above == tried_.begin()) return below_least(wanted);
    const auto below = std::prev(above);
    const double gap = above->first - below->first;
    const double hours = above->second.gpu_hours - below->second.gpu_hours;
    if (gap < kNarrowest || std::abs(hours) <= plan_.close_enough * above->second.gpu_hours) return std::nullopt;
    const double whole = log_misses(above->second.attainment) - log_misses(below->second.attainment);
    const double part = log_misses(wanted) - log_misses(below->second.attainment);
    const double at = below->first + gap * std::clamp(whole < 0.0 ? part / whole : 0.5, kEdge, 1.0 - kEdge);
    return axis_.kind == AxisKind::kCount ? between_counts(below->first, at, above->first) : at;
  }

  // A count that was not run, if there is one between these.
  std::optional<double> between_counts(double below, double at, double above) const {
    const double least = setting_at(axis_, below) + 1.0, most = setting_at(axis_, above) - 1.0;
    if (least > most) return std::nullopt;
    return generosity(axis_, std::clamp(setting_at(axis_, at), least, most));
  }

  // Continues the line through the last two settings.
  std::optional<double> beyond_most(double wanted) const {
    const auto last = std::prev(tried_.end());
    if (last->first >= 1.0 - kNarrowest) return std::nullopt;
    double step = kStep;
    if (tried_.size() > 1) step = step_along(std::prev(last), last, wanted - 1e-4);
    return std::min(1.0, last->first + step);
  }
  std::optional<double> below_least(double wanted) const {
    const auto first = tried_.begin();
    if (first->first <= kNarrowest) return std::nullopt;
    double step = kStep;
    if (tried_.size() > 1) step = step_along(std::next(first), first, wanted);
    return std::max(0.0, first->first - step);
  }
  static double step_along(Tried::const_iterator from, Tried::const_iterator to, double wanted) {
    const double slope =
        (log_misses(to->second.attainment) - log_misses(from->second.attainment)) / std::abs(to->first - from->first);
    const double missing = log_misses(wanted) - log_misses(to->second.attainment);
    const double step = slope * missing > 0.0 ? 1.1 * missing / slope : kStepMax;
    return std::clamp(step, 0.04, kStepMax);
  }

  const Axis& axis_;
  const SweepPlan& plan_;
  const std::function<core::Result<Point>(double)>& run_;
  Tried tried_;
};

}  // namespace

double generosity(const Axis& axis, double setting) {
  const double share =
      (scale(axis, setting) - scale(axis, axis.least)) / (scale(axis, axis.most) - scale(axis, axis.least));
  return axis.kind == AxisKind::kLoad ? 1.0 - share : share;
}

double setting_at(const Axis& axis, double generosity) {
  const double share = axis.kind == AxisKind::kLoad ? 1.0 - generosity : generosity;
  const double at = scale(axis, axis.least) + share * (scale(axis, axis.most) - scale(axis, axis.least));
  double setting = std::exp(at);
  if (axis.kind == AxisKind::kShare) setting = 1.0 - std::exp(-at);
  if (axis.kind == AxisKind::kHeadroom) setting = std::exp(at) - 1.0;
  return std::clamp(rounded(axis, setting), axis.least, axis.most);
}

core::Result<void> sweep(const Axis& axis, const SweepPlan& plan,
                         const std::function<core::Result<Point>(double setting)>& run) {
  return Sweep{axis, plan, run}.run();
}

}  // namespace penstock::evaluation
