// Computes the next safe steps from the target replica counts and the observed state of the replicas.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "actuation/fleet_state.h"
#include "actuation/role_switch.h"
#include "core/time.h"

namespace penstock::actuation {

struct PoolWant {
  std::string pool;
  std::uint32_t replicas = 0;
  std::string revision{};    // Replicas that were started from another revision are replaced one by one.
  std::uint32_t asleep = 0;  // Replicas that are kept asleep beside `replicas`, so that growth can wake them.
  std::optional<RoleSwitch> role_switch{};                                     // Empty: no replica changes its pool.
  std::optional<core::Duration> drain_deadline{}, unhealthy_drain_deadline{};  // Empty: those of Limits.
};

// Open work of an engine. Missing is not zero: an engine that does not report is not idle.
struct OpenWork {
  std::uint32_t requests = 0;
  std::uint32_t transfers = 0;  // KV transfers in either direction.
};
struct EngineSeen {
  core::Instant at;      // Time of the request, also if it was not answered.
  bool healthy = false;  // The engine answered that it is healthy.
  std::optional<OpenWork> open{};
  bool asleep = false;     // The engine sleeps, or has not finished a request to sleep or to wake up.
  bool switching = false;  // The engine has not finished a request to change its role.
};
// With several gateways: the oldest `at`, whether any of them routes to the replica or finds it healthy, and the sum of
// open requests. They include requests whose KV a decode replica may still fetch from it.
struct GatewaySeen {
  core::Instant at;
  bool routes = false;  // The gateway sends new requests to the replica.
  std::uint32_t open_requests = 0;
  // Its checks of the replica succeed, or answers arrive from it.
  bool healthy = true;
};
struct WarmUpSeen {
  std::uint32_t prompts = 0;   // Prompts of the plan.
  std::uint32_t answered = 0;  // Answered prompts, including errors.
};
enum class ProcessSeen : std::uint8_t { kUnknown, kAlive, kGone };

// Observation of one replica. Replicas without observation keep their stage, except for deadlines.
struct Seen {
  std::uint32_t replica = 0;
  ProcessSeen process = ProcessSeen::kUnknown;
  std::optional<EngineSeen> engine{};
  std::optional<GatewaySeen> gateway{};
  std::optional<WarmUpSeen> warm_up{};  // Empty while the warm-up is in progress.
  std::string exit_message{};           // Exit message of a process that ended: "exit code 1: out of memory".
};

struct Limits {
  core::Duration start_deadline =
      // Maximum time from process start to healthy, after which the replica is given up.
      std::chrono::minutes{10};
  // Maximum warm-up time, after which a healthy replica serves anyway.
  core::Duration warm_up_deadline = std::chrono::minutes{1};
  // Maximum drain time, after which the replica is stopped with its open work, which is reported. A pool may have its
  // own, as of the next limit.
  core::Duration drain_deadline = std::chrono::minutes{10};
  // The same for a replica whose engine answers neither the planner nor the gateway, from its last sign of life.
  core::Duration unhealthy_drain_deadline = std::chrono::seconds{30};
  // Without a gateway report, time without open work before a replica is stopped.
  core::Duration drain_quiet = std::chrono::seconds{5};
  core::Duration stop_deadline = std::chrono::seconds{30};  // Time from SIGTERM to SIGKILL.
  // Time after which an unhealthy serving replica is replaced.
  core::Duration unhealthy_time = std::chrono::seconds{30};
  // Delay before a start after a crash; doubles with each crash.
  core::Duration backoff_first = std::chrono::seconds{1};
  core::Duration backoff_max = std::chrono::seconds{60};  // Upper limit of the delay.
  // Time of serving after which earlier crashes are forgotten.
  core::Duration steady_time = std::chrono::seconds{60};
  std::uint32_t surge = 1;  // Replicas beyond the target while others are replaced.
  // Limit of living replicas in all pools; beyond it nothing starts, which is reported.
  std::uint32_t replicas_max = 1000;
  // Number of ended replicas that are kept for display; the oldest are removed first.
  std::uint32_t ended_kept = 100;
  bool warm_up = true;    // If false, a healthy replica serves at once.
  bool take_back = true;  // If false, a draining replica never serves again.
  // If false, no gateway reports open requests, and engine reports and drain_quiet decide alone.
  bool gateway = true;
};

enum class StepKind : std::uint8_t {
  kStart,   // Reserve ports, start a process, then call started() or start_failed().
  kWarmUp,  // Send the prompts of plan_warm_up().
  kAdmit,   // Let the gateway send traffic.
  kDrain,   // Let the gateway send no more requests.
  kSleep,   // Put the engine to sleep. The gateway must not know it meanwhile, because its KV cache is discarded.
  kWake,    // Wake the engine up.
  kSwitch,  // Give the engine the role of the replica's pool. Its KV cache is discarded.
  kStop,    // Send SIGTERM.
  kKill,    // Send SIGKILL.
};
[[nodiscard]] const char* to_string(StepKind kind);  // Returns "start", "warm_up", ….

enum class StepReason : std::uint8_t {
  kBelowTarget,
  kReplacesFailed,    // Another replica died.
  kReplacesOutdated,  // Another replica runs an old revision, or is unhealthy.
  kHealthy,
  kWarm,
  kWarmUpLate,  // Not all prompts were answered in time.
  kTakenBack,   // The replica is needed again while it drains.
  kAboveTarget,
  kOutdated,
  kUnhealthy,
  kDrained,
  kDrainDeadline,
  kStartDeadline,
  kStopDeadline,
  kAwake,
  kSwitched,         // The engine has its new role.
  kNeededElsewhere,  // Another pool grows, and a switch of the role is faster than a start.
  kBelowAsleep,      // Fewer replicas are asleep than wanted.
  kAboveAsleep,      // More replicas are asleep than wanted.
  kResumed,          // The step was decided before the planner's restart, and is repeated.
};
[[nodiscard]] const char* to_string(StepReason why);  // Returns "below_target", ….

struct Step {
  StepKind kind = StepKind::kStart;
  std::uint32_t replica = 0;
  StepReason why = StepReason::kBelowTarget;

  friend bool operator==(const Step&, const Step&) = default;
};

// A message for operators. Warning level means that action is needed, or that users were affected.
struct Note {
  bool warning = false;
  std::uint32_t replica = 0;  // 0 means the pool.
  std::string pool;
  std::string text;
};

struct Advance {
  std::vector<Step> steps;  // In the order in which they must be taken.
  std::vector<Note> notes;
};

// Advances the fleet. The caller saves the state and then takes the steps; each step may safely be taken twice. The
// target of a pool without a want is zero. Rules:
// - A replica with open work is not stopped before the drain deadline: it drains until the gateway sends it nothing and
// has nothing open there, and until the engine, queried after that, has neither requests nor KV transfers.
// - A draining replica whose engine has not answered for `unhealthy_drain_deadline` is stopped unless requests are open
// there that the gateway receives answers to.
// - Down: starting replicas go first, newest first, then warming ones, then those with the fewest open requests.
// - Up: draining replicas are taken back, then replicas asleep are woken, then those that start up in order to sleep
//   serve instead, then serving or draining replicas that the partner of a role switch does not need are expected, and
//   only then others are started.
// - A replica switches its role if the mean drain of its pool and the switch together take less than a start-up. It
//   drains first. If its own drain and the switch take as long as a start-up, it is not expected any more: another
//   replica is started, and it ends once it is drained.
// - A replica that is not needed sleeps if fewer than the wanted number are asleep, and ends otherwise. It is drained
//   first in both cases. Replicas that are missing asleep start up and then sleep, once nothing is to be replaced.
// - Outdated or unhealthy replicas drain when their replacement serves traffic, not before.
// - After a crash, starts wait for 1 s, doubling to 60 s; crashes during the wait count as the same incident.
// O(replicas · log replicas).
[[nodiscard]] Advance advance(FleetState& fleet, std::span<const PoolWant> wants, std::span<const Seen> seen,
                              const Limits& limits, core::Instant now);

// Result of a kStart. Both may be called twice, because a step may be taken twice.
void started(FleetState& fleet, std::uint32_t replica, Process process, core::Instant now);
[[nodiscard]] std::vector<Note> start_failed(FleetState& fleet, std::uint32_t replica, std::string_view why,
                                             const Limits& limits, core::Instant now);

// Steps that align the world with a loaded state, for a caller that does not know which steps the previous planner
// took. They must be taken before the first advance(). A kStart among them may have been executed, so the caller must
// look for its process.
[[nodiscard]] std::vector<Step> resume(const FleetState& fleet);

}  // namespace penstock::actuation
