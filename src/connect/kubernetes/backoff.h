// When a client may send requests: after failures, and at its rate limit. Time is an argument.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>

#include "core/random.h"
#include "core/time.h"

namespace penstock::connect {

struct BackoffOptions {
  core::Duration first = std::chrono::milliseconds{250};
  core::Duration longest = std::chrono::seconds{4};
};

// Delays that double with each failure in a row. Half of each is random, so that clients that failed together do not
// return together.
class Backoff {
 public:
  Backoff(const BackoffOptions& options, const core::RandomStream& random) : options_{options}, random_{random} {}

  // Retry-After of the server is a minimum; the random part comes on top of it.
  [[nodiscard]] core::Duration next(std::optional<core::Duration> retry_after = std::nullopt) {
    const auto full = std::min<core::Duration>(options_.longest, options_.first * (std::int64_t{1} << doublings_));
    if (full < options_.longest) ++doublings_;
    const auto half = full / 2;
    const core::Duration random{static_cast<std::int64_t>(random_.uniform() * static_cast<double>(half.count()))};
    return std::max(half, retry_after.value_or(core::Duration{0})) + random;
  }
  void reset() { doublings_ = 0; }

 private:
  BackoffOptions options_;
  core::RandomStream random_;
  int doublings_ = 0;
};

// A token bucket: `burst` requests at once, `per_s` in the long run.
class RequestRate {
 public:
  RequestRate(double per_s, std::uint32_t burst) : per_s_{per_s}, burst_{static_cast<double>(burst)}, tokens_{burst_} {}

  // Takes a token, and returns how long the request has to wait for it. Requests go in the order of their calls.
  // Nothing is taken or returned if the wait would be longer than `longest`.
  [[nodiscard]] std::optional<core::Duration> take(core::Instant now, core::Duration longest) {
    tokens_ = std::min<double>(burst_, tokens_ + core::to_seconds(now - at_) * per_s_);
    at_ = now;
    const core::Duration wait = core::from_seconds(std::max(0.0, 1.0 - tokens_) / per_s_);
    if (wait > longest) return std::nullopt;
    tokens_ -= 1.0;
    return wait;
  }

 private:
  double per_s_, burst_, tokens_;
  core::Instant at_ = core::kStart;
};

}  // namespace penstock::connect
