// From the wanted counts and what is seen of the replicas to the next safe steps.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "actuation/fleet_state.h"
#include "core/time.h"

namespace penstock::actuation {

struct PoolWant {
  std::string pool;
  std::uint32_t replicas = 0;
  std::string revision{};  // replicas that were started from another are replaced, one after the other
};

// The wants after a decision, whose pools are those of `before`, in the same order.
[[nodiscard]] std::vector<PoolWant> wants_after(const decision::Decision& decision, std::vector<PoolWant> before);

// What is open at an engine. Missing is not zero: an engine that does not tell is not idle.
struct OpenWork {
  std::uint32_t requests = 0;
  std::uint32_t transfers = 0;  // of KV, in either direction
};
struct EngineSeen {
  core::Instant at;      // when it was asked; also when it did not answer
  bool healthy = false;  // it answered, and said so
  std::optional<OpenWork> open{};
};
// With several gateways: the oldest `at`, whether any of them routes there, and the sum of what is open.
struct GatewaySeen {
  core::Instant at;
  bool routes = false;  // it sends new requests there
  std::uint32_t open_requests = 0;
};
struct WarmUpSeen {
  std::uint32_t prompts = 0;   // of the plan
  std::uint32_t answered = 0;  // with an error, too
};
enum class ProcessSeen : std::uint8_t { kUnknown, kAlive, kGone };

// What is known of one replica. Replicas of which nothing is said stay as they are, but for their deadlines.
struct Seen {
  std::uint32_t replica = 0;
  ProcessSeen process = ProcessSeen::kUnknown;
  std::optional<EngineSeen> engine{};
  std::optional<GatewaySeen> gateway{};
  std::optional<WarmUpSeen> warm_up{};  // none: it is under way
  std::string last_words{};             // of a process that ended: "exit code 1: out of memory"
};

struct Limits {
  core::Duration start_deadline =
      std::chrono::minutes{10};  // from the process until it is healthy; then it is given up
  core::Duration warm_up_deadline = std::chrono::minutes{1};  // then it serves all the same, if it is healthy
  core::Duration drain_deadline = std::chrono::minutes{10};   // then it is stopped with what is open, and that is told
  core::Duration drain_quiet = std::chrono::seconds{5};       // without a gateway that tells: nothing open for so long
  core::Duration stop_deadline = std::chrono::seconds{30};    // from SIGTERM to SIGKILL
  core::Duration unhealthy_time = std::chrono::seconds{30};   // then one that serves is replaced
  core::Duration backoff_first = std::chrono::seconds{1};     // before a start after a crash; doubles, …
  core::Duration backoff_max = std::chrono::seconds{60};      // … up to this
  core::Duration steady_time = std::chrono::seconds{60};      // of serving, after which crashes are forgotten
  std::uint32_t surge = 1;                                    // replicas beyond the target while others are replaced
  std::uint32_t replicas_max = 1000;  // living ones, all pools together; beyond, nothing starts, and that is told
  std::uint32_t ended_kept = 100;     // that are remembered, for those who look; the oldest go first
  bool warm_up = true;                // false: a healthy replica serves at once
  bool take_back = true;              // false: a replica that drains never serves again
  bool gateway = true;  // false: no gateway tells what is open; the engines' word and drain_quiet are all there is
};

enum class StepKind : std::uint8_t {
  kStart,   // reserve ports, start a process, then started() or start_failed()
  kWarmUp,  // send the prompts of plan_warm_up()
  kAdmit,   // tell the gateway to send traffic
  kDrain,   // tell the gateway to send no more
  kStop,    // SIGTERM
  kKill,    // SIGKILL
};
[[nodiscard]] const char* to_string(StepKind kind);  // "start", "warm_up", …

enum class StepReason : std::uint8_t {
  kBelowTarget,
  kReplacesFailed,    // one died
  kReplacesOutdated,  // another runs an old revision, or is not healthy
  kHealthy,
  kWarm,
  kWarmUpLate,  // not all prompts were answered in time
  kTakenBack,   // needed again while it drained
  kAboveTarget,
  kOutdated,
  kUnhealthy,
  kDrained,
  kDrainDeadline,
  kStartDeadline,
  kStopDeadline,
  kResumed,  // was decided before the planner's restart, and is done again to be sure
};
[[nodiscard]] const char* to_string(StepReason why);  // "below_target", …

struct Step {
  StepKind kind = StepKind::kStart;
  std::uint32_t replica = 0;
  StepReason why = StepReason::kBelowTarget;

  friend bool operator==(const Step&, const Step&) = default;
};

// What people should read. Loud: somebody should do something, or a user was hurt.
struct Note {
  bool warning = false;
  std::uint32_t replica = 0;  // 0: of the pool
  std::string pool;
  std::string text;
};

struct Advance {
  std::vector<Step> steps;  // in the order in which they are to be taken
  std::vector<Note> notes;
};

// Moves the fleet on. The caller saves the state, then takes the steps; each of them may be taken twice without harm.
// A pool that is not wanted is wanted at zero. The rules:
// - A replica with open work is not stopped before the drain deadline: it drains until the gateway sends it nothing and
//   has nothing open there, and the engine, asked after that, has no request and no KV transfer left.
// - Down: first those that start, newest first, then those that warm up, then the ones with the fewest open requests.
// - Up: draining replicas are taken back before others are started.
// - What is outdated or not healthy drains when its replacement takes traffic, not before.
// - After a crash, starts wait for 1 s, doubling to 60 s; crashes during the wait are the same trouble.
// O(replicas · log replicas).
[[nodiscard]] Advance advance(FleetState& fleet, std::span<const PoolWant> wants, std::span<const Seen> seen,
                              const Limits& limits, core::Instant now);

// What became of a kStart. Both may come twice, as a step may.
void started(FleetState& fleet, std::uint32_t replica, Process process, core::Instant now);
[[nodiscard]] std::vector<Note> start_failed(FleetState& fleet, std::uint32_t replica, std::string_view why,
                                             const Limits& limits, core::Instant now);

// The steps that bring the world in line with a state that was loaded, for a caller who does not know how far the last
// planner came. To be taken before the first advance(). A kStart among them may have been done: look for its process.
[[nodiscard]] std::vector<Step> resume(const FleetState& fleet);

}  // namespace penstock::actuation
