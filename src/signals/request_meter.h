// The requests of one pool as planners see them. Replay and live pools use the same meter.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "core/sketch.h"
#include "core/time.h"
#include "signals/minute_slices.h"
#include "signals/observation.h"
#include "signals/segment_meter.h"

namespace penstock::signals {

// Counts since the start, and the traffic and latencies of the last minute. Not thread-safe.
class RequestMeter {
 public:
  RequestMeter() = default;  // Without segments.
  // Keeps latencies by segment; a first token later than `ttft_limit` counts as slow.
  explicit RequestMeter(core::Duration ttft_limit) : segments_(ttft_limit) {}

  void arrived(core::Instant at, std::uint32_t input_tokens);
  // Takes back an arrival that was no load. The counts since the start never decrease: later arrivals make up for it.
  void withdrawn(core::Instant arrived_at, std::uint32_t input_tokens);
  // Without segments, only `ttft_ms` is read.
  void first_token(core::Instant at, double ttft_ms, const RequestTraits& request, const FirstTokenTimes& times);
  void completed(core::Instant at, const RequestTraits& request, std::uint32_t output_tokens,
                 const CompletionTimes& times);
  void failed(core::Instant at);

  // Writes the counts and the last minute, except output_tokens, and the detail if there are segments. The tenants of
  // the requests are indices into `tenants`.
  void read(PoolObservation& pool, core::Instant now, std::span<const std::string> tenants) const;
  [[nodiscard]] TrafficWindow window(core::Instant now) const;

 private:
  struct Slice {
    std::uint64_t arrivals = 0, input_tokens = 0, completed = 0, completed_output_tokens = 0, failed = 0;
    std::uint64_t slow_clients = 0, timed = 0;
    double timed_ms = 0.0;
    core::QuantileSketch ttft_ms, itl_ms, e2e_ms, tpot_ms;
  };
  std::uint64_t arrivals_ = 0, input_tokens_ = 0, completed_ = 0, failed_ = 0;
  std::uint64_t arrivals_over_ = 0, input_tokens_over_ = 0;  // Counted, and withdrawn since then.
  MinuteSlices<Slice> slices_;
  std::optional<SegmentMeter> segments_;
};

}  // namespace penstock::signals
