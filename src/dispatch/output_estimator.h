// Estimates the output tokens of answers whose engine reported none.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "core/time.h"

namespace penstock::dispatch {

// Learns from answers whose tokens are known. Not thread-safe.
class OutputEstimator {
 public:
  // Of a stream or answer that was delivered, with the number of its events and the size of its text. An event is one
  // token, or as many as events of this model have. Before that is known, an event with a long text has one token for
  // each four bytes.
  [[nodiscard]] std::uint64_t of_events(std::uint64_t events, std::uint64_t bytes) const {
    constexpr std::uint64_t kTokenBytes = 4, kOneTokenBytesMax = 8;
    const std::uint64_t by_bytes = (bytes + kTokenBytes - 1) / kTokenBytes;
    if (events == 0) return by_bytes;
    if (events_ > 0.0) {
      const double ratio = tokens_ / events_;
      // The last token of an answer ends it and has no event; that makes the ratio of short answers larger.
      return ratio < kSeveralTokens ? events
                                    : static_cast<std::uint64_t>(std::llround(ratio * static_cast<double>(events)));
    }
    return bytes > kOneTokenBytesMax * events ? std::max(events, by_bytes) : events;
  }
  // Of a request for that many answers, which are not streamed and whose client left after that time at the replica.
  [[nodiscard]] std::uint64_t of_time(core::Duration time, std::uint64_t answers) const {
    const double rate = seconds_ > 0.0 ? timed_tokens_ / seconds_ : kTokensPerSecond;
    const double tokens = rate * static_cast<double>(answers) * std::max(0.0, core::to_seconds(time));
    return std::max<std::uint64_t>(1, static_cast<std::uint64_t>(std::min(tokens + 0.5, 1e15)));
  }

  void learn(std::uint64_t tokens, std::uint64_t events, bool stream, core::Duration time, std::uint64_t answers) {
    constexpr double kMemory = 100'000.0;  // Tokens after which older answers count half.
    if (stream && events > 0) {
      tokens_ += static_cast<double>(tokens);
      events_ += static_cast<double>(events);
    }
    timed_tokens_ += static_cast<double>(tokens) / static_cast<double>(answers);
    seconds_ += std::max(0.0, core::to_seconds(time));
    if (timed_tokens_ < kMemory) return;
    for (double* sum : {&tokens_, &events_, &timed_tokens_, &seconds_}) *sum /= 2.0;
  }

 private:
  static constexpr double kSeveralTokens = 1.5;
  static constexpr double kTokensPerSecond = 30.0;  // Of one answer, before any is known.
  double tokens_ = 0.0, events_ = 0.0;
  double timed_tokens_ = 0.0, seconds_ = 0.0;
};

}  // namespace penstock::dispatch
