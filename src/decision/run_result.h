// The result of a run of one policy over one workload: the value that tables, JSON, CSV and HTML render.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/sketch.h"
#include "core/time.h"
#include "decision/decision.h"
#include "decision/figures.h"
#include "decision/token_count.h"
#include "signals/slo.h"

namespace penstock::decision {

// The requests of a segment: of a band of prompt or output lengths, a tenant, a class, or with or without a cache hit.
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
  std::uint32_t target = 0, starting = 0, ready = 0, draining = 0;  // Summed over pools.
  std::uint32_t asleep = 0;
  double asleep_paid = 0.0;  // Replicas asleep times the share of the price that each costs.
  std::vector<std::uint32_t> ready_by_pool;
  std::uint64_t queued_requests = 0, running_requests = 0;
  double kv_usage = 0.0;           // Share of the ready replicas' capacity.
  std::uint64_t first_tokens = 0;  // In the interval; if 0, the TTFT figures have no meaning.
  double ttft_p50_ms = 0.0, ttft_p95_ms = 0.0;
  std::uint64_t completed = 0;  // In the interval; if 0, the ITL figures have no meaning.
  double itl_p50_ms = 0.0, itl_p95_ms = 0.0;
  std::uint64_t arrived = 0, judged = 0, met_slo = 0;  // By arrival in the interval; judged by the SLO, within it.
};

// Requests of minutes whose rate is above twice the mean rate of the ten minutes before.
struct BurstResult {
  std::uint64_t requests = 0, met = 0;  // Judged by the SLO, and within it.

  [[nodiscard]] std::optional<double> attainment() const {  // Empty without bursts.
    if (requests == 0) return std::nullopt;
    return static_cast<double>(met) / static_cast<double>(requests);
  }
};

// The evidence of a policy for each pool at one moment.
struct EvidencePoint {
  core::Instant at;
  std::vector<std::uint32_t> target_by_pool;
  std::vector<std::vector<Evidence>> by_pool;
};

struct FailureCount {
  std::string reason;  // "prompt_exceeds_kv_cache", "replica_crashed", …
  std::uint64_t requests = 0;
};

// The requests with one target, and the number that met it.
struct TargetResult {
  std::string name;  // Of the segment, or kGeneralTarget.
  signals::SloTarget target;
  double goal = 0.99;
  std::uint64_t requests = 0;
  std::uint64_t met = 0, ttft_met = 0, itl_met = 0;  // Both limits, and each of them; a failed request met none.

  [[nodiscard]] double attainment() const {  // 1 without requests.
    return requests == 0 ? 1.0 : static_cast<double>(met) / static_cast<double>(requests);
  }
};

// Requests that could wait for spare capacity.
struct DeferralResult {
  std::uint64_t deferred = 0;                  // They waited for it.
  std::uint64_t sent_spare = 0, sent_due = 0;  // They went to spare capacity, or because their deadline was near.
  std::uint64_t missed = 0;                    // They ended after their deadline, or were refused near it.
};

// What a deployment had of the GPUs, in a run beside others. It is limited while its last decision got fewer replicas
// than its policy proposed.
struct BudgetUse {
  std::uint32_t peak_gpus = 0;      // The most that were starting, ready or draining at once.
  std::uint64_t limited_times = 0;  // How often a time began in which the budget limited it.
  double limited_s = 0.0;           // The length of these times.
  double withheld_gpu_hours = 0.0;  // GPUs that were proposed and not granted, over time.
};

// The use of the gateway by a tenant.
struct TenantResult {
  std::string name;
  std::uint64_t requests = 0, completed = 0, refused = 0;
  std::uint64_t prompt_tokens = 0, cached_tokens = 0, output_tokens = 0;
  std::optional<double>
      budget_share{};  // Tokens relative to those that its budget granted in the run; empty without a budget.
  double token_cost = 0.0;
};

struct RunResult {
  std::string policy;
  std::string router;
  std::uint32_t replicas = 0;  // At the start.
  std::uint32_t peak_replicas = 0;
  double mean_replicas = 0.0;       // Mean over time of the replicas that were started and not stopped, nor asleep.
  double mean_asleep = 0.0;         // Mean over time of the replicas asleep.
  std::uint64_t role_switches = 0;  // Replicas that changed between prefill and decode.
  std::uint64_t requests = 0, completed = 0, failed = 0;
  std::vector<FailureCount> failures;
  double slo_attainment = 0.0;   // Share of the requests that have an objective; a failed one missed it.
  std::optional<double> goal{};  // The share that the policy planned for; empty if it has no goal.
  double ttft_attainment = 0.0, itl_attainment = 0.0;
  BurstResult bursts;
  std::vector<TargetResult> targets{};  // The general one first, then those of the segments in their order.
  std::vector<TenantResult> tenants{};
  std::uint64_t waited = 0;             // Requests that were admitted after a wait at the gateway.
  core::Summary queue_wait_ms;          // Their waits.
  std::uint64_t retried = 0;            // Attempts after the failure of a replica.
  std::uint64_t clamped = 0;            // Requests whose output tokens were limited.
  std::uint64_t truncated_prompts = 0;  // Requests whose prompt was truncated.
  DeferralResult deferral{};
  std::optional<BudgetUse> budget_use{};  // Of a deployment beside others.
  double goodput_rps = 0.0;               // Requests that met the SLO, per second of the run.
  double duration_s = 0.0;
  // From the request for a replica to its end, including start-up and drain. Time asleep counts by its price.
  double gpu_hours = 0.0;
  double cost = 0.0;                                // Of the GPUs (USD).
  double input_cost_share = 0.5;                    // The part of the cost that prompt tokens cause.
  TokenCount completed_tokens{}, goodput_tokens{};  // Of requests that completed, and of those within the SLO.
  core::Summary ttft_ms, itl_ms, tpot_ms,
      e2e_ms;                     // itl is over all gaps between tokens, tpot over the means of requests.
  double prefix_hit_ratio = 0.0;  // Share of prompt tokens found in a cache.
  std::uint64_t preemptions = 0;
  std::uint64_t scaling_actions = 0;      // Changes of the target of a pool.
  std::uint64_t direction_changes = 0;    // Growth after shrinking, or the reverse.
  double simulated_requests_per_s = 0.0;  // By the wall clock; the only figure that differs between equal runs.
  std::vector<SeriesPoint> series;
  std::vector<DecisionRecord> decisions;   // Records that changed a target.
  std::vector<DecisionRecord> holds{};     // Records of holds.
  std::vector<ForecastPoint> forecasts{};  // About as often as the series has points.
  std::vector<EvidencePoint> evidence{};   // Likewise.
  std::vector<SegmentResult> segments;
};

}  // namespace penstock::decision
