// The input of a policy at one moment. The live and the simulated world fill the same value.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/time.h"
#include "signals/slo.h"
#include "telemetry/engine_sample.h"

namespace penstock::signals {

enum class Role : std::uint8_t { kAggregated, kPrefill, kDecode };
enum class ReplicaState : std::uint8_t { kStarting, kReady, kDraining, kAsleep, kStopped, kCrashed };

[[nodiscard]] const char* to_string(Role role);           // "aggregated", "prefill", "decode"
[[nodiscard]] const char* to_string(ReplicaState state);  // "starting", …

// The last report of an engine. The type belongs to telemetry; an observation has one for each replica.
using telemetry::EngineSample;

struct ReplicaObservation {
  std::uint32_t replica = 0;  // Unique in a run, never reused.
  ReplicaState state = ReplicaState::kStarting;
  core::Instant state_since;
  std::optional<EngineSample> sample;  // Empty if the replica never reported. Missing is not zero.
};

struct LatencyWindow {
  std::uint64_t count = 0;  // If 0, the figures below have no meaning.
  double mean_ms = 0.0, p50_ms = 0.0, p90_ms = 0.0, p95_ms = 0.0, p99_ms = 0.0;
};

// Requests that entered and left a pool during the last minute (less at the start of a run).
struct TrafficWindow {
  core::Duration length{};
  std::uint64_t arrivals = 0;
  std::uint64_t input_tokens = 0;   // Of the arrivals.
  std::uint64_t output_tokens = 0;  // Generated in the window.
  std::uint64_t completed = 0;
  std::uint64_t completed_output_tokens = 0;  // Sum of the output lengths of completed requests.
  std::uint64_t failed = 0;
  LatencyWindow ttft;  // Of first tokens in the window.
  LatencyWindow itl;   // Mean ITL of each request that completed in the window.
  // Of answers that completed in the window and were not streamed, so that TTFT and ITL are unknown: the time from
  // arrival to end, and that time divided by the output tokens.
  LatencyWindow e2e, tpot;
  // Answers that completed in the window and waited for their client to read, so that their ITL is unknown.
  std::uint64_t slow_clients = 0;
  // Of all requests that completed in the window: those whose time from arrival to end is known, and the sum of it.
  std::uint64_t timed = 0;
  double timed_ms = 0.0;
};

// Latencies of the last minute of requests with something in common. Dimensions: "prompt tokens", "output tokens",
// "traffic class", "prefix cache", "tenant".
struct SegmentWindow {
  std::string dimension;
  std::string label;  // For example "1k-4k", "batch", "hit" or "tenant-17".
  LatencyWindow ttft;
  LatencyWindow itl;
};

// One part of the time to a first token.
struct TimePart {
  double mean_ms = 0.0, p95_ms = 0.0;
  double slow_mean_ms = 0.0;  // Of slow first tokens only; the parts sum to their mean TTFT.
};

// The parts of the time to the first tokens of the last minute, in their order.
struct FirstTokenWindow {
  std::uint64_t count = 0;  // If 0, the parts have no meaning.
  std::uint64_t slow = 0;   // First tokens later than the SLO allows; if 0, slow_mean_ms has no meaning.
  TimePart admission;       // Before admission.
  TimePart replica_wait;    // After admission: no replica was ready, or its replica crashed.
  TimePart queue;           // In an engine until it was first scheduled.
  TimePart prefill;         // Until its first token was computed.
  TimePart transfer;        // Of its KV to a decode replica, including the wait for the link.
  // The engines do not report these times for each request: `prefill` contains `queue`, which is 0.
  bool queue_in_prefill = false;
};

// Figures that only a diagnosis needs and that cost more to measure.
struct PoolDetail {
  std::vector<SegmentWindow> segments;  // Segments with traffic in the last minute.
  FirstTokenWindow first_tokens;
  std::uint64_t shed = 0;                // Arrivals of the last minute that admission refused.
  core::Duration oldest_unrouted_age{};  // 0 if no request waits in front of the pool.
};

// A pool of a deployment, as it is configured.
struct Pool {
  std::string name = "default";
  Role role = Role::kAggregated;
  std::uint32_t gpus_per_replica = 1;
  std::uint32_t min_replicas = 1;
  std::uint32_t max_replicas = 1;
  core::Duration start_up{};        // Time from the request for a replica until it is ready.
  double price_per_gpu_hour = 1.0;  // In USD.
  core::Duration wake_time{};       // Time from the request to wake a replica until it is ready; 0: none ever sleeps.
  double sleep_price = 0.15;        // Share of the price that a replica costs while it is asleep.
  std::uint32_t min_asleep = 0;     // Replicas that are kept asleep whatever the policy decides.
  RequestSelector serves{};         // Of several aggregated pools: the first that matches a request is its own.
  // Time from the end of the drain of a replica of the other role until it serves here; 0: no replica changes its role.
  core::Duration switch_time{};

  // Replicas sleep, and waking one is faster than starting one.
  [[nodiscard]] bool can_sleep() const { return wake_time > core::Duration{} && wake_time < start_up; }
};

// What the pools serve, if they are several aggregated ones; otherwise empty.
template <class Pools>
[[nodiscard]] std::vector<RequestSelector> served_by(const Pools& pools) {
  std::vector<RequestSelector> served;
  for (const Pool& pool : pools)
    if (pool.role == Role::kAggregated) served.push_back(pool.serves);
  if (served.size() < 2) served.clear();
  return served;
}

struct PoolObservation : Pool {
  std::uint32_t target_replicas = 1;  // The last requested number.
  std::uint32_t asleep_target = 0;    // The last requested number of replicas asleep.
  std::uint32_t starting = 0, ready = 0, draining = 0;
  std::uint32_t asleep = 0;             // Loaded, without weights and KV cache on the GPU; growth wakes them first.
  std::uint32_t starting_to_sleep = 0;  // They start up, sleep then, and are not counted above.
  std::uint32_t switching = 0;  // Replicas of the other role that drain in order to serve here; that pool counts them.
  // They have a node but cannot start, or do not end. They are paid for, but neither counted above nor listed.
  std::uint32_t stuck = 0, stuck_ending = 0;
  std::vector<ReplicaObservation> replicas;  // Replicas in all these states, oldest first.
  std::uint32_t unrouted_requests = 0;       // Requests that wait because no replica is ready.
  std::uint64_t arrivals_total = 0;          // Counters since the start of the run.
  std::uint64_t input_tokens_total = 0;
  std::uint64_t output_tokens_total = 0;
  std::uint64_t completed_total = 0;
  std::uint64_t failed_total = 0;
  std::uint64_t actions_failed_total = 0;  // Refused scaling actions, and replicas that died while starting.
  std::uint64_t shrinks_failed_total = 0;  // Refused actions that only shrink the pool; not counted above.
  TrafficWindow last_minute;
  std::optional<PoolDetail> detail;  // Empty unless Policy::wants_segments(), or where it is not measured.

  // Replicas awake that hold GPUs: those that stay, and those that leave.
  [[nodiscard]] std::uint32_t staying() const { return starting + ready + stuck; }
  [[nodiscard]] std::uint32_t leaving() const { return draining + stuck_ending; }
};

// How a request ended that did not complete.
enum class RequestEnd : std::uint8_t {
  kNone,       // It completed or is in flight.
  kFailed,     // An error, also a refusal for lack of capacity.
  kCancelled,  // Its client left or its time budget ended.
};

// A recent request. Trial runs of other fleets are made of these.
struct RecentRequest {
  core::Instant arrival;
  std::uint32_t input_tokens = 0;
  std::uint32_t output_tokens = 0;           // 0 until the request has completed.
  float ttft_ms = -1.0F;                     // Negative before the first token.
  float itl_ms = -1.0F;                      // Mean gap between its tokens; negative until it has completed.
  std::span<const std::uint32_t> block_ids;  // Blocks of its prompt, at the block size of the engines.
  std::uint8_t target = 0;                   // Index of its SLO as target_index() returns it.
  bool streamed = true;                      // Otherwise only e2e_ms is ever known.
  float e2e_ms = -1.0F;                      // From arrival to end; negative until it has completed.
  RequestEnd end = RequestEnd::kNone;
  std::uint8_t pool = 0;  // Index of its own pool among several aggregated ones; otherwise 0.
  // It may wait at the gateway for spare capacity until this time after its arrival; 0: it does not. If it waited for
  // `deferred_ms`, the latencies above begin with the end of that wait.
  core::Duration completion_window{};
  float deferred_ms = 0.0F;
  // What the gateway expected of its answer when it came, which decides about its replica; 0: unknown.
  std::uint32_t expected_output_tokens = 0;
  std::uint32_t tenant = 0;  // Index into Observation::tenants.
};

struct Observation {
  core::Instant now;
  std::vector<PoolObservation> pools;
  // Arrivals within Policy::memory(), in their order, and the names of their tenants; valid while the policy decides.
  std::span<const RecentRequest> recent;
  std::span<const std::string> tenants{};
};

// Traffic counters and windows, without latencies, of all pools at which requests enter, or which decode, together.
struct FleetTraffic {
  std::uint64_t arrivals_total = 0, input_tokens_total = 0, completed_total = 0, output_tokens_total = 0;
  TrafficWindow last_minute;
};
[[nodiscard]] FleetTraffic entry_traffic(const Observation& observation);
[[nodiscard]] FleetTraffic exit_traffic(const Observation& observation);

}  // namespace penstock::signals
