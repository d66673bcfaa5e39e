// Ejects a replica from the choice after failures, and lets one request try it again after a while.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/time.h"
#include "dispatch/options.h"
#include "dispatch/outlier_detection.h"

namespace penstock::dispatch {

enum class EjectionCause : std::uint8_t { kNone, kConsecutiveFailures, kSuccessRate, kFailedTrial };

[[nodiscard]] constexpr const char* to_string(EjectionCause cause) {
  switch (cause) {
    case EjectionCause::kNone: return "";
    case EjectionCause::kConsecutiveFailures: return "consecutive_failures";
    case EjectionCause::kSuccessRate: return "success_rate";
    case EjectionCause::kFailedTrial: return "failed_trial";
  }
  return "";
}

// An attempt succeeds or fails with the end of its answer. Only transport faults, answers that are not whole and server
// errors other than 501, 503 and 505 count as failures: a replica that answers "busy", or that it does not support what
// the request is for, works. The caller decides whether the replica may be ejected, because that depends on its peers.
class CircuitBreaker {
 public:
  enum class State : std::uint8_t { kClosed, kOpen, kTrying };

  explicit CircuitBreaker(const CircuitBreakerOptions& options) : options_(options), window_(options.window) {}

  void set_options(const CircuitBreakerOptions& options) {
    if (options.window != options_.window) window_ = OutcomeWindow{options.window};
    options_ = options;
  }

  [[nodiscard]] State state() const { return state_; }
  [[nodiscard]] EjectionCause cause() const { return cause_; }  // Of the latest ejection, until the breaker closes.
  [[nodiscard]] std::uint32_t failures() const { return failures_; }  // Consecutive failures.
  [[nodiscard]] bool has_too_many_failures() const { return failures_ >= options_.failures; }
  // The latest attempt failed and the replica is not ejected. It gets one request at a time if there is a choice.
  [[nodiscard]] bool is_suspect() const {
    return state_ == State::kClosed && failures_ > 0 && options_.failures != CircuitBreakerOptions::kNever;
  }
  [[nodiscard]] OutcomeWindow::Counts counts(core::Instant now) const { return window_.counts(now); }

  // Whether a request may go there. An open breaker becomes a trying one once its time is over.
  [[nodiscard]] bool lets_through(core::Instant now) {
    if (state_ == State::kOpen && now >= open_until_) state_ = State::kTrying;
    return state_ == State::kClosed || (state_ == State::kTrying && !trial_in_flight_);
  }
  // Ends the ejection, for example because the replica is healthy again; one request tries it.
  void end_ejection() {
    if (state_ == State::kOpen) state_ = State::kTrying;
  }

  // A request goes there; while the breaker is trying, it is the only one. Returns the number that identifies the
  // attempt's period between two ejections.
  std::uint32_t dispatched() {
    trial_in_flight_ = state_ == State::kTrying;
    return period_;
  }
  // The outcome of an attempt of an earlier period says nothing about the replica since its ejection.
  void succeeded(std::uint32_t period, core::Instant now) {
    if (period != period_) return;
    window_.add(true, now);
    failures_ = 0;
    trial_in_flight_ = false;
    if (state_ == State::kClosed) return;
    state_ = State::kClosed;
    cause_ = EjectionCause::kNone;
    closed_at_ = now;
  }
  // Returns true if the failure counts and the caller must decide about an ejection. A failed trial ejects at once.
  [[nodiscard]] bool failed(std::uint32_t period, core::Instant now, bool reached = true) {
    if (period != period_) return false;
    window_.add(false, now);
    ++failures_;
    if (!reached && options_.ejects_unreached && options_.failures != CircuitBreakerOptions::kNever)
      failures_ = std::max(failures_, options_.failures);
    trial_in_flight_ = false;
    if (state_ != State::kTrying) return state_ == State::kClosed;
    eject(EjectionCause::kFailedTrial, now);
    return false;
  }
  // The outcome is unknown, for example because the client left.
  void undecided(std::uint32_t period) {
    if (period == period_) trial_in_flight_ = false;
  }

  // An ejection that follows the previous one soon lasts twice as long.
  void eject(EjectionCause cause, core::Instant now) {
    const bool soon = ejections_ > 0 && (state_ != State::kClosed || now < closed_at_ + time_);
    time_ = soon ? std::min(2 * time_, std::max(options_.open, options_.open_max)) : options_.open;
    state_ = State::kOpen;
    cause_ = cause;
    open_until_ = now + time_;
    trial_in_flight_ = false;
    ++ejections_;
    ++period_;
    window_.clear();
  }

  [[nodiscard]] core::Instant open_until() const { return open_until_; }
  [[nodiscard]] std::uint64_t ejections() const { return ejections_; }

 private:
  CircuitBreakerOptions options_;
  OutcomeWindow window_;
  State state_ = State::kClosed;
  EjectionCause cause_ = EjectionCause::kNone;
  std::uint32_t failures_ = 0, period_ = 0;
  bool trial_in_flight_ = false;
  core::Duration time_{};  // Length of the latest ejection.
  core::Instant open_until_, closed_at_;
  std::uint64_t ejections_ = 0;
};

}  // namespace penstock::dispatch
