// The replicas that Penstock runs itself, as one plain value: saved after every change, it is all that a new planner
// needs to go on where the last one ended.
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

// The life of a replica, in order. From kStarting on it has a process; it ends exactly once, stopped or failed.
enum class Stage : std::uint8_t {
  kRequested,  // to be started; whether it has a process is not known yet
  kStarting,   // has a process that is not healthy yet
  kWarming,    // healthy; answers warm-up prompts, no user's
  kServing,    // takes traffic
  kDraining,   // gets no new requests, and finishes those that it has
  kStopping,   // asked to end
  kStopped,    // ended as asked
  kFailed,     // died by itself, could not be started, or never became healthy
};
[[nodiscard]] const char* to_string(Stage stage);  // "requested", "starting", …
[[nodiscard]] std::optional<Stage> stage_named(std::string_view name);
[[nodiscard]] bool has_ended(Stage stage);
// How a policy sees it: what does not take traffic yet is starting, what is on its way out drains.
[[nodiscard]] signals::ReplicaState observed(Stage stage);

// A process, told from later ones with the same number by when it started.
struct Process {
  std::int64_t pid = 0;
  std::uint64_t started_ticks = 0;  // of the system's clock, since it booted

  friend bool operator==(const Process&, const Process&) = default;
};

struct Replica {
  std::uint32_t id = 0;  // unique in the fleet, never used again
  std::string pool{};
  std::string revision{};  // of what it was started from
  Stage stage = Stage::kRequested;
  core::Instant requested_at, since;   // `since`: in this stage
  std::vector<std::uint16_t> ports{};  // its own until it has ended
  std::optional<Process> process{};
  std::optional<core::Instant> unhealthy_since{};  // of one that serves
  std::optional<core::Instant> quiet_since{};      // of one that drains: from when nothing was open
  bool given_up = false;                           // asked to end because it failed, not because it is not needed
  bool killed = false;                             // did not end when asked

  friend bool operator==(const Replica&, const Replica&) = default;
};

struct PoolState {
  std::string name;
  std::uint32_t crashes = 0;                   // in a row
  std::optional<core::Instant> start_after{};  // nothing is started before, because something crashed
  bool full = false;                           // Limits::replicas_max keeps it from its target, and that was told

  friend bool operator==(const PoolState&, const PoolState&) = default;
};

struct FleetState {
  std::uint32_t next_id = 1;
  std::uint16_t next_port = 0;    // from where the next free port is looked for
  std::vector<PoolState> pools;   // in the order in which they were first seen
  std::vector<Replica> replicas;  // oldest first; the ended ones go after a while

  [[nodiscard]] const Replica* find(std::uint32_t id) const;
  [[nodiscard]] Replica* find(std::uint32_t id);

  friend bool operator==(const FleetState&, const FleetState&) = default;
};

// "default-3": what logs, files and the gateway call it.
[[nodiscard]] std::string name_of(const Replica& replica);

struct PortRange {
  std::uint16_t first = 9000, last = 9999;  // both included
};

// Gives the replica a port that no other living one has and of which `is_free` says that nobody listens there. Goes
// round the range, so that a port rests as long as possible before it is used again. None: there is none.
std::optional<std::uint16_t> reserve_port(FleetState& fleet, std::uint32_t replica, PortRange range,
                                          const std::function<bool(std::uint16_t)>& is_free);

}  // namespace penstock::actuation
