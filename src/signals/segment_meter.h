// Latencies of the last minute by segment, and the parts of the time to the first tokens.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "core/sketch.h"
#include "core/time.h"
#include "signals/bands.h"
#include "signals/minute_slices.h"
#include "signals/observation.h"

namespace penstock::signals {

// The properties of a request that select its segments.
struct RequestTraits {
  std::uint32_t input_tokens = 0;
  std::uint32_t tenant = 0;  // Index into the names given to read().
  bool batch = false;        // The traffic class is batch, not interactive.
  bool cache_hit = false;    // A part of its prompt was found in a cache.
  std::string_view route{};  // The path of the request, in memory that outlives the meter; empty without routes.
};

// The parts of the time from the arrival of a request to its first token. They follow each other and sum to the TTFT.
struct FirstTokenTimes {
  core::Duration admission{};     // Before admission.
  core::Duration replica_wait{};  // After admission: no replica was ready, or its replica crashed.
  core::Duration queue{};         // In an engine until it was first scheduled.
  core::Duration prefill{};       // Until its first token was computed.
  core::Duration transfer{};      // Of its KV to a decode replica, including the wait for the link.
  // Beyond which the sum counts as slow; empty: that of the meter.
  std::optional<core::Duration> limit{};
};

// How long a completed request took; empty where it was not measured. Of an answer that is not streamed only the time
// from arrival to end is known.
struct CompletionTimes {
  std::optional<double> ttft_ms{};
  std::optional<double> itl_ms{};  // Mean gap between its tokens; it has no meaning with one output token.
  std::optional<double> e2e_ms{};
  bool slow_client = false;  // It waited for its client to read.
};

// Counts in slices of five seconds. An output length is known only at the end, so that the TTFT of an output band is
// that of requests that ended in the window; all other TTFTs are those of first tokens in the window. A slice counts
// the first kTenantsTracked tenants separately; the others are "all others". Not thread-safe.
class SegmentMeter {
 public:
  static constexpr std::size_t kTenantsTracked = 32;
  static constexpr std::size_t kTenantsShown = 10;   // The tenants with most requests in the window.
  static constexpr std::size_t kRoutesTracked = 16;  // Further routes are counted without route.

  // A first token later than `ttft_limit` counts as slow.
  explicit SegmentMeter(core::Duration ttft_limit) : ttft_limit_(ttft_limit) {}

  void set_ttft_limit(core::Duration limit) { ttft_limit_ = limit; }  // Applies to later first tokens.

  void first_token(core::Instant at, const RequestTraits& request, const FirstTokenTimes& times);
  void completed(core::Instant at, const RequestTraits& request, std::uint32_t output_tokens,
                 const CompletionTimes& times);
  // Costs about 50 merges of sketches per slice: call it once per decision, not once per request.
  [[nodiscard]] PoolDetail read(core::Instant now, std::span<const std::string> tenants) const;

 private:
  static constexpr std::size_t kOutputs = kPromptBands.size();
  static constexpr std::size_t kClasses = kOutputs + kOutputBands.size();
  static constexpr std::size_t kCache = kClasses + 2;
  static constexpr std::size_t kFixed = kCache + 2;  // Segments that are always the same.
  static constexpr std::size_t kParts = 5;           // Parts of FirstTokenTimes.
  static constexpr std::uint32_t kOthers = UINT32_MAX;

  struct Latencies {
    core::QuantileSketch ttft_ms, itl_ms;
    void merge(const Latencies& other);
  };
  struct Slice {
    std::array<Latencies, kFixed> fixed;
    std::map<std::uint32_t, Latencies> tenants;
    std::map<std::string_view, Latencies> routes;
    std::array<core::QuantileSketch, kParts> part_ms;
    std::array<double, kParts> slow_sum_ms{};
    std::uint64_t slow = 0;
  };

  static Latencies& tenant_in(Slice& slice, std::uint32_t tenant);
  static Latencies* route_in(Slice& slice, std::string_view route);  // Null if the route is not tracked.
  static void add_tenants(PoolDetail& detail, const std::map<std::uint32_t, Latencies>& tenants,
                          std::span<const std::string> names);

  core::Duration ttft_limit_;
  MinuteSlices<Slice> slices_;
};

}  // namespace penstock::signals
