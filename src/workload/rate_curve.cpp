#include "workload/rate_curve.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace penstock::workload {
namespace {

// Position between low and high, and its integral from the start in seconds.
struct Height {
  double now = 0.0, summed_s = 0.0;
};

Height height_at(const RateCurve& curve, double time_s) {
  const double length_s = core::to_seconds(curve.length);
  const double since_s = time_s - core::to_seconds(curve.at);
  switch (curve.shape) {
    case RateShape::kConstant: return {};
    case RateShape::kRamp: {
      const double risen_s = std::clamp(since_s, 0.0, length_s);
      return {risen_s / length_s, 0.5 * risen_s * risen_s / length_s + std::max(since_s - length_s, 0.0)};
    }
    case RateShape::kStep: return {since_s >= 0.0 ? 1.0 : 0.0, std::max(since_s, 0.0)};
    case RateShape::kBurst:
      return {since_s >= 0.0 && since_s < length_s ? 1.0 : 0.0, std::clamp(since_s, 0.0, length_s)};
    case RateShape::kDiurnal: {
      const double turn = 2.0 * std::numbers::pi / length_s;
      const double start_s = time_s - since_s;
      return {0.5 * (1.0 - std::cos(turn * since_s)),
              0.5 * (time_s - (std::sin(turn * since_s) + std::sin(turn * start_s)) / turn)};
    }
  }
  return {};
}

}  // namespace

double RateCurve::at_time(core::Duration since_start) const {
  return low + (high - low) * height_at(*this, core::to_seconds(since_start)).now;
}

ExpectedArrivals::ExpectedArrivals(const RateCurve& curve, core::Duration duration)
    : curve_(curve), duration_s_(core::to_seconds(duration)), all_(until(duration_s_)) {}

double ExpectedArrivals::until(double time_s) const {
  return curve_.low * time_s + (curve_.high - curve_.low) * height_at(curve_, time_s).summed_s;
}

std::optional<double> ExpectedArrivals::time_s_of(double count) {
  if (!(count < all_)) return std::nullopt;
  if (curve_.shape == RateShape::kConstant) return count / curve_.low;
  // Newton steps with bisection as a fallback, because a curve may be flat and has corners.
  double low_s = count >= last_count_ ? last_time_s_ : 0.0;
  double high_s = duration_s_;
  double time_s = low_s;
  for (int step = 0; step < 200; ++step) {
    const double missing = count - until(time_s);
    if (std::abs(missing) <= 1e-12 * std::max(count, 1.0)) break;
    (missing > 0.0 ? low_s : high_s) = time_s;
    const double rate = curve_.low + (curve_.high - curve_.low) * height_at(curve_, time_s).now;
    double next_s = rate > 0.0 ? time_s + missing / rate : high_s;
    if (!(next_s > low_s && next_s < high_s)) next_s = 0.5 * (low_s + high_s);
    if (next_s == time_s || high_s - low_s < 1e-10) break;
    time_s = next_s;
  }
  // Rounding must not make times decrease.
  if (count >= last_count_) time_s = std::max(time_s, last_time_s_);
  last_time_s_ = time_s;
  last_count_ = count;
  return time_s;
}

}  // namespace penstock::workload
