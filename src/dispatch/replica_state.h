// What a dispatcher knows of one replica.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "core/time.h"
#include "dispatch/circuit_breaker.h"
#include "dispatch/replica_spec.h"
#include "routing/picking_strategy.h"

namespace penstock::dispatch {

struct ReplicaState {
  ReplicaSpec spec;
  std::uint32_t group = 0;
  std::uint32_t place = 0;            // The strategy's number of the replica within the group.
  std::uint32_t model = 0;            // Number of spec.model.
  std::vector<std::uint32_t> also{};  // Numbers of spec.also.
  bool used = false;                  // The slot has a replica.
  bool present = false;               // The replica is in the list from discovery.
  ReplicaHealth health = ReplicaHealth::kHealthy;
  core::Instant answered_at{};  // The last time when a part of an answer came from it.
  bool eligible = false;
  CircuitBreaker breaker{{}};
  CircuitBreaker::State breaker_state = CircuitBreaker::State::kClosed;  // The last reported state.
  std::uint64_t ejections_logged = 0;                                    // The ejections that were reported.
  bool suspect = false;                                                  // Counted in Group::suspects.
  std::uint32_t open_requests = 0;
  // Requests that left this prefill replica and whose KV may still be fetched from it. They are no load.
  std::uint32_t open_transfers = 0;
  bool reports_cached_tokens = false;  // Its usage has contained cached tokens.
  std::uint64_t requests_total = 0, failures_total = 0, busy_total = 0;
  std::array<std::uint64_t, routing::kPickReasons> picks{};  // Attempts by the reason of the choice.

  [[nodiscard]] bool is_healthy() const { return health == ReplicaHealth::kHealthy; }
  [[nodiscard]] bool is_slow() const { return health == ReplicaHealth::kSlow; }
  [[nodiscard]] bool is_serving() const { return used && present && spec.phase == ReplicaPhase::kServing; }
};

}  // namespace penstock::dispatch
