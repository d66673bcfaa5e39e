#include "dispatch/outlier_detection.h"

#include <algorithm>
#include <cmath>

namespace penstock::dispatch {

void OutcomeWindow::add(bool success, core::Instant now) {
  const std::int64_t number = number_of(now);
  Slot& slot = slots_[static_cast<std::size_t>(number % kIntervals)];
  if (slot.number != number) slot = {number, {}};
  ++(success ? slot.counts.succeeded : slot.counts.failed);
}

OutcomeWindow::Counts OutcomeWindow::counts(core::Instant now) const {
  const std::int64_t number = number_of(now);
  Counts sum;
  for (const Slot& slot : slots_) {
    if (slot.number < 0 || slot.number + kIntervals <= number) continue;
    sum.succeeded += slot.counts.succeeded;
    sum.failed += slot.counts.failed;
  }
  return sum;
}

bool is_outlier(const OutcomeWindow::Counts& own, std::span<const OutcomeWindow::Counts> peers,
                const CircuitBreakerOptions& options) {
  constexpr double kMarginMin = 0.1;
  if (own.attempts() < options.window_requests) return false;
  const double rate = own.success_rate();
  if (rate < options.success_min) return true;
  double sum = 0.0, squares = 0.0;
  int judged = 0;
  for (const OutcomeWindow::Counts& peer : peers) {
    if (peer.attempts() < options.window_requests) continue;
    sum += peer.success_rate();
    squares += peer.success_rate() * peer.success_rate();
    ++judged;
  }
  if (judged == 0) return false;
  const double mean = sum / judged;
  const double deviation = std::sqrt(std::max(0.0, squares / judged - mean * mean));
  return rate < mean - std::max(kMarginMin, options.deviations * deviation);
}

}  // namespace penstock::dispatch
