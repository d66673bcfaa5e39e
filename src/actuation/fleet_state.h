// The replicas that Penstock runs itself, as one plain value that is saved after every change and is all that a
// restarted planner needs.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/time.h"
#include "decision/policy.h"

namespace penstock::actuation {

// The life cycle of a replica, in order. It has a process from kStarting on and ends exactly once, as stopped or
// failed.
enum class Stage : std::uint8_t {
  kRequested,  // Start was requested; the process is not confirmed yet.
  kStarting,   // The process is not healthy yet.
  kWarming,    // Healthy; answers warm-up prompts only.
  kWaking,     // Was asleep and was asked to wake up.
  kSwitching,  // Left another pool, without open work, and takes the role of this one.
  kServing,    // Serves traffic.
  kDraining,   // Receives no new requests and completes its open ones.
  kAsleep,     // Was asked to sleep: its process runs without weights and KV cache on the GPU, as in vLLM's sleep mode.
  kStopping,   // Was asked to end.
  kStopped,    // Ended as requested.
  kFailed,     // Died, could not be started, or never became healthy.
};
[[nodiscard]] const char* to_string(Stage stage);  // Returns "requested", "starting", ….
[[nodiscard]] std::optional<Stage> stage_named(std::string_view name);
[[nodiscard]] bool has_ended(Stage stage);

// A process, identified by its start time in addition to its number.
struct Process {
  std::int64_t pid = 0;
  std::uint64_t started_ticks = 0;  // System clock ticks since boot.

  friend bool operator==(const Process&, const Process&) = default;
};

struct Replica {
  std::uint32_t id = 0;  // Unique in the fleet, never reused.
  std::string pool{};
  std::string revision{};  // Revision from which it was started.
  Stage stage = Stage::kRequested;
  core::Instant requested_at, since;   // `since` is the start of the current stage.
  std::vector<std::uint16_t> ports{};  // Reserved until the replica has ended.
  std::optional<Process> process{};
  std::optional<core::Instant> unhealthy_since{};  // Of an engine that does not answer.
  // Only for a draining replica: time since which nothing has been open.
  std::optional<core::Instant> quiet_since{};
  bool given_up = false;  // The replica ends because it failed, not because it is no longer needed.
  bool killed = false;    // The replica did not end after SIGTERM.
  bool to_sleep = false;  // A replica that starts or wakes up sleeps as soon as it is ready.
  // Only for a draining replica: the pool whose role it takes once it is drained; empty if it ends or sleeps then.
  std::string switch_to{};

  friend bool operator==(const Replica&, const Replica&) = default;
};

// The state that a policy observes: replicas before serving are starting, replicas after serving are draining. A
// replica that starts up in order to sleep counts as asleep, because it adds no capacity.
[[nodiscard]] signals::ReplicaState observed(const Replica& replica);

struct PoolState {
  std::string name;
  std::uint32_t crashes = 0;                   // Consecutive crashes.
  std::optional<core::Instant> start_after{};  // Nothing is started before this time because of a crash.
  bool full = false;  // Limits::replicas_max keeps the pool below its target, which was reported.
  // Mean time of recent drains, exponentially weighted; empty before the first.
  std::optional<core::Duration> drain_time{};

  friend bool operator==(const PoolState&, const PoolState&) = default;
};

struct FleetState {
  std::uint32_t next_id = 1;
  std::uint16_t next_port = 0;    // Position at which the search for a free port starts.
  std::vector<PoolState> pools;   // In order of first observation.
  std::vector<Replica> replicas;  // Oldest first; ended replicas are removed after a while.

  [[nodiscard]] const Replica* find(std::uint32_t id) const;
  [[nodiscard]] Replica* find(std::uint32_t id);
  // Replicas that drain in order to take a role of this pool.
  [[nodiscard]] std::uint32_t switching_to(std::string_view pool) const;

  friend bool operator==(const FleetState&, const FleetState&) = default;
};

// Name in logs, files and the gateway: "default-3".
[[nodiscard]] std::string name_of(const Replica& replica);

struct PortRange {
  std::uint16_t first = 9000, last = 9999;  // Inclusive range.
};

// Reserves a port that no living replica has and that `is_free` reports as unused. The search cycles through the range,
// so that ports are reused as late as possible. Returns nothing if no port is free.
std::optional<std::uint16_t> reserve_port(FleetState& fleet, std::uint32_t replica, PortRange range,
                                          const std::function<bool(std::uint16_t)>& is_free);

}  // namespace penstock::actuation
