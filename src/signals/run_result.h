// What a run of one policy over one workload came to: the value that tables, JSON, CSV and HTML render.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/sketch.h"
#include "core/time.h"
#include "signals/slo.h"

namespace penstock::signals {

// Requests with something in common: a prompt-length band, an output-length band, a tenant, a class, cache hit or not.
struct SegmentResult {
  std::string dimension;  // "prompt tokens", "output tokens", "tenant", "traffic class", "prefix cache"
  std::string label;      // "1k-4k", "tenant-17", "hit", …
  std::uint64_t requests = 0;
  std::uint64_t failed = 0;
  double slo_attainment = 0.0;
  core::Summary ttft_ms, itl_ms;
};

// One moment of a run: the fleet at the end of the interval, the traffic during it.
struct SeriesPoint {
  core::Instant at;
  double arrivals_per_s = 0.0, input_tokens_per_s = 0.0, output_tokens_per_s = 0.0;
  std::uint32_t target = 0, starting = 0, ready = 0, draining = 0;  // summed over pools
  std::vector<std::uint32_t> ready_by_pool;
  std::uint64_t queued_requests = 0, running_requests = 0;
  double kv_usage = 0.0;           // of the ready replicas' capacity
  std::uint64_t first_tokens = 0;  // in the interval; 0: the TTFT figures mean nothing
  double ttft_p50_ms = 0.0, ttft_p95_ms = 0.0;
  std::uint64_t completed = 0;  // in the interval; 0: the ITL figures mean nothing
  double itl_p50_ms = 0.0, itl_p95_ms = 0.0;
  std::uint64_t arrived = 0, met_slo = 0;  // by arrival in the interval
};

struct EvidenceValue {
  std::string name;  // "request_rate"
  double value = 0.0;
  std::string unit;  // "1/s"
};

// A fleet that was tried out before a decision, and the shares of the tried requests that it would have kept.
struct CandidateNote {
  std::vector<std::uint32_t> replicas{};  // by pool
  double slo_attainment = 0.0, ttft_attainment = 0.0, itl_attainment = 0.0;
  bool chosen = false;
};

// What a policy expects of the time that a new replica takes to start; what is not known has no value.
struct OutlookNote {
  std::optional<double> requests_per_s{}, input_tokens{}, output_tokens{};  // lengths are means of a request
  // Mean absolute errors of such forecasts of the rate lately, in 1/s: its own, and those of expecting no change.
  std::optional<double> error{}, naive_error{};

  [[nodiscard]] bool known() const { return requests_per_s || input_tokens || output_tokens || error || naive_error; }
};

// What a policy expected and estimated at one moment.
struct OutlookPoint {
  core::Instant at;
  OutlookNote expected{};
  std::optional<double> ttft_ms{}, itl_ms{};              // estimated, of the fleet there is
  std::vector<std::optional<double>> capacity_by_pool{};  // of one replica within the SLO, requests a second
};

struct DecisionNote {
  core::Instant at;
  std::string pool;
  std::uint32_t current = 0, target = 0;
  std::string reason;                     // stable name
  std::string sentence;                   // evidence in words, with units
  std::string limited_by;                 // empty, or the stable name of the clamp
  std::vector<EvidenceValue> evidence{};  // the same as values
  std::vector<CandidateNote> candidates{};
  std::string cause{};      // of bad latency, a stable name ("none", "queue", …); empty: the policy does not diagnose
  std::string diagnosis{};  // the same in words
  std::string phase{};      // of the rollout; empty: there is none
  std::optional<std::uint32_t> next_phase_target{};  // what the next phase would ask for
  std::optional<OutlookNote> outlook{};
};

struct FailureCount {
  std::string reason;  // "prompt_exceeds_kv_cache", "replica_crashed", …
  std::uint64_t requests = 0;
};

// The requests with one target, and how many of them kept it.
struct TargetResult {
  std::string name;  // of the segment, or kGeneralTarget
  SloTarget target;
  double goal = 0.99;
  std::uint64_t requests = 0;
  std::uint64_t met = 0, ttft_met = 0, itl_met = 0;  // both limits, and each; a failed request missed them

  [[nodiscard]] double attainment() const {  // without requests nothing was missed
    return requests == 0 ? 1.0 : static_cast<double>(met) / static_cast<double>(requests);
  }
};

struct RunResult {
  std::string policy;
  std::string router;
  std::uint32_t replicas = 0;  // at the start
  std::uint32_t peak_replicas = 0;
  double mean_replicas = 0.0;  // started and not stopped, over time
  std::uint64_t requests = 0, completed = 0, failed = 0;
  std::vector<FailureCount> failures;
  double slo_attainment = 0.0;  // share of all requests; a failed one missed
  double ttft_attainment = 0.0, itl_attainment = 0.0;
  std::vector<TargetResult> targets{};  // the general one first, then those of the segments in their order
  double goodput_rps = 0.0;             // requests that met the SLO, per second of the run
  double duration_s = 0.0;
  double gpu_hours = 0.0;  // from the request for a replica to its end, start-up and drain included
  double cost = 0.0;
  core::Summary ttft_ms, itl_ms, tpot_ms, e2e_ms;  // itl: over all gaps between tokens; tpot: over requests' means
  double prefix_hit_ratio = 0.0;                   // share of prompt tokens found in a cache
  std::uint64_t preemptions = 0;
  std::uint64_t scaling_actions = 0;      // changes of a pool's target
  std::uint64_t direction_changes = 0;    // an up after a down or the reverse
  double simulated_requests_per_s = 0.0;  // wall speed; the one figure that differs between equal runs
  std::vector<SeriesPoint> series;
  std::vector<DecisionNote> decisions;  // those that changed a target
  // Those that kept it, where reason, limit, cause or what the next phase wants are not what the pool's last one had.
  std::vector<DecisionNote> holds{};
  std::vector<OutlookPoint> outlooks{};  // about as often as the series has points
  std::vector<SegmentResult> segments;
};

}  // namespace penstock::signals
