// What a policy sees at one moment. Live and simulated worlds fill the same value; nothing behind it can be asked.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/time.h"
#include "telemetry/engine_sample.h"

namespace penstock::signals {

enum class Role : std::uint8_t { kAggregated, kPrefill, kDecode };
enum class ReplicaState : std::uint8_t { kStarting, kReady, kDraining, kStopped, kCrashed };

[[nodiscard]] const char* to_string(Role role);           // "aggregated", "prefill", "decode"
[[nodiscard]] const char* to_string(ReplicaState state);  // "starting", …

// What an engine last reported. Telemetry owns the type; an observation holds one of each replica.
using telemetry::EngineSample;

struct ReplicaObservation {
  std::uint32_t replica = 0;  // unique in a run, never used again
  ReplicaState state = ReplicaState::kStarting;
  core::Instant state_since;
  std::optional<EngineSample> sample;  // none: nothing was ever heard from it. Missing is not zero
};

struct LatencyWindow {
  std::uint64_t count = 0;  // 0: nothing finished in the window, the figures below mean nothing
  double mean_ms = 0.0, p50_ms = 0.0, p90_ms = 0.0, p95_ms = 0.0, p99_ms = 0.0;
};

// What entered and left a pool during the last minute (less at the start of a run).
struct TrafficWindow {
  core::Duration length{};
  std::uint64_t arrivals = 0;
  std::uint64_t input_tokens = 0;   // of the arrivals
  std::uint64_t output_tokens = 0;  // generated in the window
  std::uint64_t completed = 0;
  std::uint64_t completed_output_tokens = 0;  // Σ output lengths of the completed
  std::uint64_t failed = 0;
  LatencyWindow ttft;  // of first tokens that came in the window
  LatencyWindow itl;   // per-request mean ITL of requests that completed in the window
};

// Latencies of the last minute of requests with something in common. Dimensions: "prompt tokens", "output tokens",
// "traffic class", "prefix cache", "tenant".
struct SegmentWindow {
  std::string dimension;
  std::string label;  // "1k-4k", "batch", "hit", "tenant-17", …
  LatencyWindow ttft;
  LatencyWindow itl;
};

// One part of the time to a first token.
struct TimePart {
  double mean_ms = 0.0, p95_ms = 0.0;
  double slow_mean_ms = 0.0;  // of the slow first tokens only; their parts sum to their mean TTFT
};

// Where the time to the first tokens of the last minute went. The parts follow each other in this order.
struct FirstTokenWindow {
  std::uint64_t count = 0;  // 0: the parts mean nothing
  std::uint64_t slow = 0;   // of them, later than the SLO allows; 0: slow_mean_ms means nothing
  TimePart admission;       // held at the door before it was let in
  TimePart replica_wait;    // let in, but no replica was ready, or one crashed that had it
  TimePart queue;           // in an engine, until it was first scheduled
  TimePart prefill;         // from there until its first token was computed
  TimePart transfer;        // of its KV to a decode replica, the wait for the link included
};

// What only a diagnosis needs, and what costs more to keep.
struct PoolDetail {
  std::vector<SegmentWindow> segments;  // those with traffic in the last minute
  FirstTokenWindow first_tokens;
  std::uint64_t shed = 0;                // arrivals of the last minute that admission refused
  core::Duration oldest_unrouted_age{};  // 0 when nothing waits in front of the pool
};

struct PoolObservation {
  std::string name = "default";
  Role role = Role::kAggregated;
  std::uint32_t gpus_per_replica = 1;
  std::uint32_t min_replicas = 1;
  std::uint32_t max_replicas = 1;
  std::uint32_t target_replicas = 1;  // what was last asked for
  core::Duration start_up{};          // from the request for a replica until it is ready
  std::uint32_t starting = 0, ready = 0, draining = 0;
  std::vector<ReplicaObservation> replicas;  // starting, ready and draining ones, oldest first
  std::uint32_t unrouted_requests = 0;       // waiting in front of the pool because no replica is ready
  std::uint64_t arrivals_total = 0;          // counters since the start of the run
  std::uint64_t input_tokens_total = 0;
  std::uint64_t output_tokens_total = 0;
  std::uint64_t completed_total = 0;
  std::uint64_t failed_total = 0;
  std::uint64_t actions_failed_total = 0;  // scaling actions that were refused, and replicas that died while starting
  TrafficWindow last_minute;
  std::optional<PoolDetail> detail;  // none unless Policy::wants_segments(), or where nobody measures it
};

// A request that came lately: what trial runs of other fleets are made of.
struct RecentRequest {
  core::Instant arrival;
  std::uint32_t input_tokens = 0;
  std::uint32_t output_tokens = 0;           // 0: it has not ended, so nobody knows
  float ttft_ms = -1.0F;                     // below 0: not answered yet
  float itl_ms = -1.0F;                      // mean gap between its tokens; below 0: it has not ended
  std::span<const std::uint32_t> block_ids;  // what its prompt may share, at the engines' block size
  std::uint8_t target = 0;                   // of its SLO, as target_index() tells
};

struct Observation {
  core::Instant now;
  std::vector<PoolObservation> pools;
  // Arrivals of the time that Policy::memory() asks for, in their order; valid while the policy decides.
  std::span<const RecentRequest> recent;
};

}  // namespace penstock::signals
