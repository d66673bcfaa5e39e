// Takes a replica out of the choice after failures in a row, and lets one request try it again after a while.
#pragma once

#include <cstdint>

#include "core/time.h"
#include "dispatch/options.h"

namespace penstock::dispatch {

// Only transport faults and server errors other than 503 count as failures: a replica that answers "busy" works.
class CircuitBreaker {
 public:
  enum class State : std::uint8_t { kClosed, kOpen, kTrying };

  explicit CircuitBreaker(const CircuitBreakerOptions& options) : options_(options) {}

  void set_options(const CircuitBreakerOptions& options) { options_ = options; }

  [[nodiscard]] State state() const { return state_; }
  [[nodiscard]] std::uint32_t failures() const { return failures_; }  // in a row
  // Whether a request may go there. An open breaker becomes a trying one once its time is over.
  [[nodiscard]] bool lets_through(core::Instant now) {
    if (state_ == State::kOpen && now >= open_until_) state_ = State::kTrying;
    return state_ == State::kClosed || (state_ == State::kTrying && !trial_in_flight_);
  }
  // A request goes there; while the breaker is trying, it is the only one.
  void dispatched() { trial_in_flight_ = state_ == State::kTrying; }

  void succeeded() {
    state_ = State::kClosed;
    failures_ = 0;
    trial_in_flight_ = false;
  }
  void failed(core::Instant now) {
    ++failures_;
    trial_in_flight_ = false;
    if (state_ == State::kClosed && failures_ < options_.failures) return;
    state_ = State::kOpen;
    open_until_ = now + options_.open;
    ++openings_;
  }
  // The client left before the replica answered.
  void undecided() { trial_in_flight_ = false; }

  [[nodiscard]] core::Instant open_until() const { return open_until_; }
  [[nodiscard]] std::uint64_t openings() const { return openings_; }

 private:
  CircuitBreakerOptions options_;
  State state_ = State::kClosed;
  std::uint32_t failures_ = 0;
  bool trial_in_flight_ = false;
  core::Instant open_until_;
  std::uint64_t openings_ = 0;
};

}  // namespace penstock::dispatch
