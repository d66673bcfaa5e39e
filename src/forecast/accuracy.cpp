#include "forecast/accuracy.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/result.h"

namespace penstock::forecast {

double AccuracyReport::ratio() const {
  if (naive_error > 0.0) return error / naive_error;
  return error > 0.0 ? std::numeric_limits<double>::infinity() : 1.0;
}

Accuracy::Accuracy(core::Duration interval, core::Duration horizon, core::Duration peak_window, std::size_t kept)
    : steps_(steps_of(horizon, interval)),
      peak_steps_(static_cast<std::size_t>(steps_of(peak_window, interval))),
      kept_(kept),
      history_(static_cast<std::size_t>(steps_)) {}

void Accuracy::settle(const Point& point) {
  if (point.after_jump) {
    history_.clear();
    pending_.clear();
  }
  history_.add(point.step, point.value);
  while (!pending_.empty() && pending_.front().from + steps_ <= point.step) {
    const Pending pending = pending_.front();
    pending_.pop_front();
    const auto outcome = history_.outcome(pending.from, pending.from + steps_, peak_steps_);
    if (!outcome) continue;
    scores_.push_back(score(pending, *outcome));
    if (scores_.size() > kept_) scores_.pop_front();
  }
}

void Accuracy::add(const Point& now, const Forecast& forecast) {
  const Distribution& level = forecast.level;
  pending_.push_back({now.step, now.value, level.mean, level.quantile(0.50), level.quantile(0.90), level.quantile(0.95),
                      forecast.peak.quantile(0.90)});
}

Accuracy::Score Accuracy::score(const Pending& pending, const Outcome& outcome) {
  const double level = outcome.level;
  return {std::abs(pending.expected - level),
          std::abs(pending.last_value - level),
          std::abs(pending.p50 - level),
          pending.expected - level,
          pinball_loss(0.9, pending.p90, level),
          level <= pending.p50,
          level <= pending.p90,
          level <= pending.p95,
          outcome.peak <= pending.peak_p90};
}

AccuracyReport Accuracy::report() const {
  AccuracyReport report;
  report.scored = scores_.size();
  if (scores_.empty()) return report;
  for (const Score& score : scores_) {
    report.error += score.error;
    report.naive_error += score.naive_error;
    report.median_error += score.median_error;
    report.bias += score.bias;
    report.pinball_p90 += score.pinball_p90;
    report.below_p50 += score.below_p50 ? 1.0 : 0.0;
    report.below_p90 += score.below_p90 ? 1.0 : 0.0;
    report.below_p95 += score.below_p95 ? 1.0 : 0.0;
    report.peak_below_p90 += score.peak_below_p90 ? 1.0 : 0.0;
  }
  const auto count = static_cast<double>(scores_.size());
  for (double* sum : {&report.error, &report.naive_error, &report.median_error, &report.bias, &report.pinball_p90,
                      &report.below_p50, &report.below_p90, &report.below_p95, &report.peak_below_p90})
    *sum /= count;
  return report;
}

}  // namespace penstock::forecast
