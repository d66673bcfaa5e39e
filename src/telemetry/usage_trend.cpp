#include "telemetry/usage_trend.h"

#include <algorithm>
#include <cmath>

namespace penstock::telemetry {
namespace {

constexpr std::size_t kObservationsLeast = 5;
constexpr double kSlopeErrors = 3.0;

}  // namespace

void UsageTrend::observe(core::Instant at, std::optional<double> share) {
  if (!share || !(*share >= 0.0 && *share <= 1.0) || (!observed_.empty() && at <= observed_.back().at))
    observed_.clear();
  if (!share || !(*share >= 0.0 && *share <= 1.0)) return;
  observed_.push_back({at, *share});
  while (observed_.front().at < at - kWindow) observed_.pop_front();
}

std::optional<core::Duration> UsageTrend::full_in() const {
  if (observed_.size() < kObservationsLeast || observed_.back().at - observed_.front().at < kSpanLeast)
    return std::nullopt;
  const core::Instant last = observed_.back().at;
  const auto count = static_cast<double>(observed_.size());
  double mean_s = 0.0, mean_share = 0.0;
  for (const Observed& each : observed_) {
    mean_s += core::to_seconds(each.at - last) / count;
    mean_share += each.share / count;
  }
  double of_time = 0.0, of_both = 0.0;
  for (const Observed& each : observed_) {
    const double s = core::to_seconds(each.at - last) - mean_s;
    of_time += s * s;
    of_both += s * (each.share - mean_share);
  }
  if (of_time <= 0.0) return std::nullopt;
  const double slope = of_both / of_time;
  double squares = 0.0;
  for (const Observed& each : observed_) {
    const double error = each.share - mean_share - slope * (core::to_seconds(each.at - last) - mean_s);
    squares += error * error;
  }
  const double slope_error = std::sqrt(squares / (count - 2.0) / of_time);
  if (!(slope > 0.0) || slope < kSlopeErrors * slope_error) return std::nullopt;
  const double share_now = std::max(observed_.back().share, mean_share - slope * mean_s);
  const double seconds = std::max(0.0, 1.0 - share_now) / slope;
  if (seconds > core::to_seconds(kFarthest)) return std::nullopt;
  return core::from_seconds(seconds);
}

}  // namespace penstock::telemetry
