// The events that Penstock's processes report, as one table: name, level, fields and meaning.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace penstock::logging {

enum class Level : std::uint8_t { kDebug, kInfo, kWarning, kError };
[[nodiscard]] std::string_view to_string(Level level);  // "debug", "info", "warning", "error"

// An event has one level. What can be well or ill has two events, as kReplicaUnhealthy and kReplicaHealthy.
enum class Event : std::uint8_t {
  // Every process.
  kStart,
  kListening,
  kDrain,
  kDrainTimeout,
  kStop,
  kExposed,
  kFileLimitLow,
  kLinesDropped,
  // The gateway.
  kTakeover,
  kConfigReloaded,
  kConfigChanged,
  kLimitLoosened,
  kConfigReloadFailed,
  kReloadIgnored,
  kLogNotReopened,
  kRestartNeeded,
  kReplicasReloaded,
  kReplicasReloadFailed,
  kReplicaDuplicate,
  kHostResolved,
  kHostUnresolved,
  kReplicaAdded,
  kReplicaRemoved,
  kReplicaPhase,
  kReplicaUnhealthy,
  kReplicaHealthy,
  kReplicaUnresponsive,
  kReplicaModelUnknown,
  kReplicaModels,
  kBreakerOpen,
  kBreakerTrying,
  kBreakerClosed,
  kReplicaLeftOut,
  kTelemetryUnavailable,
  kTelemetryAvailable,
  kFpmRejected,
  kFpmUnavailable,
  kGpuMetricsUnavailable,
  kDynamoDiscoveryFailed,
  kKvEventsUnavailable,
  kKvEventsRejected,
  kRequestPhase,
  kRetry,
  kRefusal,
  kOverloadBegan,
  kOverloadEnded,
  kRequestFailed,
  kAccess,
  kLedger,
  kRecording,
  kBudgetsFull,
  // The planner.
  kGatewayUnreachable,
  kGatewayReachable,
  kGatewayLeft,
  kSeveralGateways,
  kDataUnknown,
  kDataKnown,
  kPrometheusMatched,
  kPrometheusFailed,
  kDecision,
  kReplicaState,
  kReplicaStep,
  kReplicaAdopted,
  kPoolHeld,
  kPoolReleased,
  kScaled,
  kActuation,
  kActuationWarning,
  kProcessStarted,
  kProcessEnded,
  kFileUnwritable,
  kFileWritable,
  kDecisionLogFailed,
  kExternalMetricsFailed,
  kPolicyState,
  kLeadershipAcquired,
  kLeadershipLost,
  kLeaderChanged,
  kLeaseFailed,
  kClusterEventsFailed,
  // The engine model behind a socket.
  kEngineState,
  kEngineFault,
  kCount,
};

struct EventInfo {
  Event event;
  Level level;
  std::string_view name;    // "replica_unhealthy"
  std::string_view source;  // the process that reports it
  std::string_view fields;  // separated by spaces
  std::string_view meaning;
};
[[nodiscard]] std::span<const EventInfo> event_table();
[[nodiscard]] const EventInfo& info_of(Event event);  // O(1)

// docs/reference/log-events.md.
[[nodiscard]] std::string log_events_markdown();

}  // namespace penstock::logging
