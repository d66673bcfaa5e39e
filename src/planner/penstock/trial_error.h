// The error of trials, as comparisons with what was observed show it.
#pragma once

#include <cmath>
#include <cstddef>
#include <deque>
#include <optional>

#include "core/state_archive.h"

namespace penstock::planner {

// Attainment of the fleet that served a slice of traffic: in a trial, and as observed.
struct TrialCheck {
  double requests = 0.0;
  double trial = 1.0, observed = 1.0;
  void archive(core::StateArchive& state) { state.values_of(requests, trial, observed); }
};

class TrialError {
 public:
  void observe(const TrialCheck& check) {
    latest_ = check;
    errors_.push_back(std::abs(check.trial - check.observed));
    if (errors_.size() > kRemembered) errors_.pop_front();
  }

  // Mean difference of the latest 20 checks in percentage points, without sign; empty before the first check.
  [[nodiscard]] std::optional<double> points() const {
    if (errors_.empty()) return std::nullopt;
    double sum = 0.0;
    for (const double error : errors_) sum += error;
    return 100.0 * sum / static_cast<double>(errors_.size());
  }
  [[nodiscard]] const std::optional<TrialCheck>& latest() const { return latest_; }

  void archive(core::StateArchive& state) { state("trial_error", errors_, latest_); }

 private:
  static constexpr std::size_t kRemembered = 20;
  std::deque<double> errors_;
  std::optional<TrialCheck> latest_;
};

}  // namespace penstock::planner
