// Latencies of the last minute by what requests have in common, and where the time to their first tokens went.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "core/sketch.h"
#include "core/time.h"
#include "signals/bands.h"
#include "signals/minute_slices.h"
#include "signals/observation.h"

namespace penstock::signals {

// What is known of a request when its first token is out.
struct RequestTraits {
  std::uint32_t input_tokens = 0;
  std::uint32_t tenant = 0;  // index into the names given to read()
  bool batch = false;        // its traffic class; interactive if not
  bool cache_hit = false;    // some of its prompt was found in a cache
  std::string_view route{};  // the path it came by, in memory that outlives the meter; empty: there are no routes
};

// Where the time from a request's arrival to its first token went. The parts follow each other and sum to the TTFT.
struct FirstTokenTimes {
  core::Duration admission{};     // held at the door before it was let in
  core::Duration replica_wait{};  // let in, but no replica was ready, or one crashed that had it
  core::Duration queue{};         // in an engine, until it was first scheduled
  core::Duration prefill{};       // from there until its first token was computed
  core::Duration transfer{};      // of its KV to a decode replica, the wait for the link included
};

// Counts in slices of five seconds, as the traffic of the last minute. An output length is known only at the end, so the
// output bands' TTFT is of requests that ended in the window; all else is of first tokens that came in it. A slice tells
// kTenantsTracked tenants apart, the ones it saw first; the rest are "all others". Not thread-safe.
class SegmentMeter {
 public:
  static constexpr std::size_t kTenantsTracked = 32;
  static constexpr std::size_t kTenantsShown = 10;   // those with most requests in the window
  static constexpr std::size_t kRoutesTracked = 16;  // more are not told apart from none

  // A first token later than `ttft_limit` counts as slow.
  explicit SegmentMeter(core::Duration ttft_limit) : ttft_limit_(ttft_limit) {}

  void first_token(core::Instant at, const RequestTraits& request, const FirstTokenTimes& times);
  // `itl_ms` is the request's mean gap; it means nothing with one output token.
  void completed(core::Instant at, const RequestTraits& request, std::uint32_t output_tokens, double ttft_ms,
                 double itl_ms);
  // Costs some 50 merges of sketches a slice: once a decision, not once a request.
  [[nodiscard]] PoolDetail read(core::Instant now, std::span<const std::string> tenants) const;

 private:
  static constexpr std::size_t kOutputs = kPromptBands.size();
  static constexpr std::size_t kClasses = kOutputs + kOutputBands.size();
  static constexpr std::size_t kCache = kClasses + 2;
  static constexpr std::size_t kFixed = kCache + 2;  // segments that are always the same
  static constexpr std::size_t kParts = 5;           // of FirstTokenTimes
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
  static Latencies* route_in(Slice& slice, std::string_view route);  // null: it is not told apart
  static void add_tenants(PoolDetail& detail, const std::map<std::uint32_t, Latencies>& tenants,
                          std::span<const std::string> names);

  core::Duration ttft_limit_;
  MinuteSlices<Slice> slices_;
};

}  // namespace penstock::signals
