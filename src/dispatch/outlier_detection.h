// Judges a replica by the outcomes of its recent attempts, alone and compared with its peers.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "core/time.h"
#include "dispatch/options.h"

namespace penstock::dispatch {

// Outcomes of the attempts that ended within the latest window, in a ring of intervals.
class OutcomeWindow {
 public:
  struct Counts {
    std::uint32_t succeeded = 0, failed = 0;
    [[nodiscard]] std::uint32_t attempts() const { return succeeded + failed; }
    [[nodiscard]] double success_rate() const { return static_cast<double>(succeeded) / attempts(); }
  };

  explicit OutcomeWindow(core::Duration window = std::chrono::minutes{1}) : interval_(window / kIntervals) {}

  void add(bool success, core::Instant now);
  [[nodiscard]] Counts counts(core::Instant now) const;
  void clear() { slots_ = {}; }

 private:
  static constexpr std::int64_t kIntervals = 10;
  struct Slot {
    std::int64_t number = -1;  // Intervals since the start of the clock.
    Counts counts;
  };
  [[nodiscard]] std::int64_t number_of(core::Instant now) const { return now.time_since_epoch() / interval_; }

  core::Duration interval_;
  std::array<Slot, kIntervals> slots_{};
};

// As Envoy's success rate ejection, except that a replica is compared with the other replicas alone: its own rate would
// hide it in a small group. Returns true if the rate of `own` is below `success_min`, or below the mean of its peers by
// more than `deviations` standard deviations and by a tenth. Replicas with fewer than `window_requests` attempts are
// not judged.
[[nodiscard]] bool is_outlier(const OutcomeWindow::Counts& own, std::span<const OutcomeWindow::Counts> peers,
                              const CircuitBreakerOptions& options);

}  // namespace penstock::dispatch
