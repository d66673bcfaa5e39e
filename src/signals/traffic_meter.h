// The traffic of the last minute: arrivals, ends, TTFT and ITL. Replay and live pools use the same meter.
#pragma once

#include <cstdint>

#include "core/sketch.h"
#include "core/time.h"
#include "signals/minute_slices.h"
#include "signals/observation.h"

namespace penstock::signals {

// Not thread-safe.
class TrafficMeter {
 public:
  void arrived(core::Instant at, std::uint32_t input_tokens);
  void first_token(core::Instant at, double ttft_ms);
  // `itl_ms` is the request's mean ITL; it has no meaning with one output token.
  void completed(core::Instant at, std::uint32_t output_tokens, double itl_ms);
  void failed(core::Instant at);
  [[nodiscard]] TrafficWindow window(core::Instant now) const;

  std::uint64_t arrivals_total = 0, input_tokens_total = 0, completed_total = 0, failed_total = 0;

 private:
  struct Slice {
    std::uint64_t arrivals = 0, input_tokens = 0, completed = 0, completed_output_tokens = 0, failed = 0;
    core::QuantileSketch ttft_ms, itl_ms;
  };
  MinuteSlices<Slice> slices_;
};

}  // namespace penstock::signals
