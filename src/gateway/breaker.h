// Takes a replica out of the choice after failures in a row, and lets one request try it again after a while.
#pragma once

#include <cstdint>

#include "core/time.h"
#include "gateway/options.h"

namespace penstock::gateway {

// Only transport faults and server errors other than 503 count as failures: a replica that says "busy" works.
class Breaker {
 public:
  enum class State : std::uint8_t { kClosed, kOpen, kTrying };

  explicit Breaker(const BreakerOptions& options) : options_(options) {}

  [[nodiscard]] State state() const { return state_; }
  // Whether a request may go there. An open breaker becomes a trying one when its time is over.
  [[nodiscard]] bool lets_through(core::Instant now) {
    if (state_ == State::kOpen && now >= open_until_) state_ = State::kTrying;
    return state_ == State::kClosed || (state_ == State::kTrying && !trial_under_way_);
  }
  // A request goes there; only the first does while it is trying.
  void dispatched() { trial_under_way_ = state_ == State::kTrying; }

  void succeeded() {
    state_ = State::kClosed;
    failures_ = 0;
    trial_under_way_ = false;
  }
  void failed(core::Instant now) {
    ++failures_;
    trial_under_way_ = false;
    if (state_ == State::kClosed && failures_ < options_.failures) return;
    state_ = State::kOpen;
    open_until_ = now + options_.open;
    ++openings_;
  }
  void undecided() { trial_under_way_ = false; }  // the client left before the replica answered

  [[nodiscard]] core::Instant open_until() const { return open_until_; }
  [[nodiscard]] std::uint64_t openings() const { return openings_; }

 private:
  BreakerOptions options_;
  State state_ = State::kClosed;
  std::uint32_t failures_ = 0;
  bool trial_under_way_ = false;
  core::Instant open_until_;
  std::uint64_t openings_ = 0;
};

}  // namespace penstock::gateway
