// Whether the data that a planner needs is there. Without it, nothing is decided, and no figure looks healthy.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "core/time.h"
#include "signals/observation.h"

namespace penstock::signals {

enum class DataState : std::uint8_t {
  kKnown,
  kNoGateway,    // The gateway has not answered yet, or not for a while: traffic and observed replicas are unknown.
  kNoFleet,      // What runs the replicas does not say how many there are.
  kNoReplicas,   // The gateway answers, and a pool has no replica that is ready.
  kStarting,     // A pool has only replicas that are starting, or have not had the time to report.
  kNoTelemetry,  // No ready replica of a pool has sent telemetry lately.
};

inline constexpr std::array kDataStates = {DataState::kKnown,      DataState::kNoGateway, DataState::kNoFleet,
                                           DataState::kNoReplicas, DataState::kStarting,  DataState::kNoTelemetry};
[[nodiscard]] const char* to_string(DataState state);  // "known", "no_gateway", …
// What is missing and what to do, as a clause without a full stop. Empty for kKnown.
[[nodiscard]] const char* explain(DataState state);

// Whether a policy may decide. Without telemetry it can: it sees the traffic, and nothing shrinks.
[[nodiscard]] constexpr bool can_decide(DataState state) {
  return state != DataState::kNoGateway && state != DataState::kNoFleet && state != DataState::kNoReplicas;
}

struct DataLimits {
  core::Duration gateway_age = std::chrono::seconds{10};
  core::Duration sample_age = std::chrono::seconds{30};
  core::Duration first_sample = std::chrono::seconds{5};  // Time in which a new replica reports for the first time.
};

// `gateway_at`: the time of the last traffic and state of the gateway; empty before the first. `acts`: the planner
// starts and stops the replicas itself.
[[nodiscard]] DataState data_state(const Observation& seen, std::optional<core::Instant> gateway_at, bool acts,
                                   const DataLimits& limits);

// Whether a ready replica has a recent sample.
[[nodiscard]] bool is_reporting(const ReplicaObservation& replica, core::Instant now, core::Duration sample_age);

}  // namespace penstock::signals
