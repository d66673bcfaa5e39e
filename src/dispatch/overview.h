// The state of a dispatcher at one time, for documents, metrics and pages.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/sketch.h"
#include "core/time.h"
#include "dispatch/circuit_breaker.h"
#include "dispatch/overload_counts.h"
#include "dispatch/refusal.h"
#include "dispatch/replica_spec.h"
#include "ledger/balance.h"
#include "routing/picking_strategy.h"
#include "signals/observation.h"

namespace penstock::dispatch {

struct ActiveRequest;
struct Grant;

struct ReplicaStatus {
  ReplicaSpec spec;
  std::uint32_t slot = 0;
  bool healthy = true;
  bool breaker_open = false;
  EjectionCause ejection_cause = EjectionCause::kNone;  // Until the replica returns.
  std::uint64_t ejections_total = 0;
  std::optional<double> success_rate;  // Of the attempts within the window of the outlier detection.
  std::uint64_t requests_total = 0, failures_total = 0, busy_total = 0;
  std::array<std::uint64_t, routing::kPickReasons> picks{};  // Attempts by the reason of the choice (PickReason).
  std::uint32_t open_transfers = 0;                          // As in ReplicaSet::Replica.
  routing::PickingStrategy::Load load;
};

struct TenantStatus {
  std::string name;
  double budget_available = -1.0;  // Tokens; below 0: no limit.
  std::uint32_t running = 0, waiting = 0;
  // Range 0 to 1: use of its tokens per minute or its concurrent requests, whichever is closer to its limit; empty
  // without limits.
  std::optional<double> saturation{};
  std::uint64_t moved_to_batch = 0;  // Requests since the start; see OverBudget.
};

struct ModelStatus {
  std::string model;
  signals::PoolDetail detail;            // Over the last minute.
  core::QuantileSketch ttft_ms, itl_ms;  // Since the start.
  std::uint32_t waiting_for_room = 0;    // Without requests that a limit of their tenant or class blocks.
  core::Instant oldest_for_room = core::kNever;
  // The same by their own pools: first the configured ones, then the requests that none of them matches.
  std::vector<std::uint32_t> waiting_by_pool;
  std::vector<core::Instant> oldest_by_pool;
};

// One of several aggregated pools. The totals are attempts of its own requests.
struct PoolStatus {
  std::string name;
  std::uint64_t own_total = 0, overflow_total = 0;  // At replicas of the pool, and at others.
};

// Totals of requests that may wait for spare capacity.
struct DeferralCounts {
  std::uint64_t deferred = 0;    // They waited.
  std::uint64_t sent_spare = 0;  // They went to a replica with spare capacity.
  std::uint64_t sent_due = 0;    // They went because their deadline was near.
  std::uint64_t missed = 0;      // They ended after their deadline, or were refused near it.

  DeferralCounts& operator+=(const DeferralCounts& other);
  DeferralCounts& operator-=(const DeferralCounts& earlier);  // None of the counts of which is larger.
};

// Totals since the start.
struct Counters {
  std::uint64_t granted = 0, refused = 0, retried = 0, clamped = 0;
  std::uint64_t truncated_prompts = 0, truncated_prompt_tokens = 0;  // Requests, and what was dropped, estimated.
  std::uint64_t discarded_prompt_tokens = 0;  // Of attempts that failed after they were sent, estimated.
  std::uint64_t step_tokens = 0;              // Charged for the steps that replicas computed when clients left.
  std::array<std::uint64_t, kRefusalReasons> refusals{};  // By reason. Requests that left while they waited have none.
  SegmentCounts overload;
  DeferralCounts deferral;
  std::vector<std::uint64_t> moved_to_batch;  // By tenant; the last ones may be missing.

  void move_to_batch(std::uint32_t tenant, std::uint64_t requests = 1);
  // The request was granted a replica for the first time.
  void sent(const ActiveRequest& request, const Grant& made);
  Counters& operator+=(const Counters& other);
};

struct Overview {
  core::Instant now;
  std::vector<ReplicaStatus> replicas;
  std::vector<TenantStatus> tenants;
  std::vector<ModelStatus> models;
  std::vector<PoolStatus> pools;  // Several aggregated ones, as configured.
  std::vector<std::pair<std::pair<std::string, std::string>, ledger::Sums>> sums;  // By tenant and model.
  std::uint32_t waiting_interactive = 0, waiting_batch = 0, running = 0;
  std::uint64_t waiting_tokens = 0;
  // Requests that wait for spare capacity; they are in no figure above but that of their tenant.
  std::uint64_t deferred_requests = 0, deferred_tokens = 0;
  core::Instant next_due = core::kNever;  // When the deadline of the first of them is near.
  // The time until then; empty without deferred requests. One that is due is deferred no longer at the next tick.
  [[nodiscard]] std::optional<double> due_in_s() const {
    if (next_due == core::kNever) return std::nullopt;
    return std::max(0.0, core::to_seconds(next_due - now));
  }
  DeferralCounts deferral;
  core::Instant oldest_waiting = core::kNever;
  std::uint64_t granted_total = 0, refused_total = 0, retried_total = 0, clamped_total = 0;
  std::uint64_t truncated_prompts = 0, truncated_prompt_tokens = 0;
  std::uint64_t discarded_prompt_tokens = 0;
  std::vector<std::pair<RefusalReason, std::uint64_t>> refusals;  // Reasons that occurred, in the order of their names.
  std::vector<SegmentOverload> overload;                          // Segments on which an overload policy acted.
  std::optional<double> prompt_error, output_error;               // Errors of the estimates.
};

}  // namespace penstock::dispatch
