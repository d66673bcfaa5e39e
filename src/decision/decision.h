// A decision on the replicas of a fleet. Logs, metrics, reports and the live page all render this one value.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/state_archive.h"
#include "core/time.h"

namespace penstock::decision {

// The reason for the target of a pool. The names of all enums here are stable: logs, metrics and reports print them.
enum class Reason : std::uint8_t {
  kFixed,              // The policy never changes the target.
  kWithinTolerance,    // The signal is near its target.
  kNoData,             // There is no telemetry: hold.
  kInsufficientData,   // There is too little telemetry: hold.
  kScalingInProgress,  // Replicas are starting or draining.
  kLoadAboveTarget,
  kLoadBelowTarget,
  kStabilized,            // An earlier proposal within the window is in force.
  kPanic,                 // The short window decides.
  kSaturated,             // The spare capacity is below its threshold.
  kSpareCapacity,         // One replica less would be enough.
  kConsolidationRefused,  // One replica less would not be enough.
  kSloAtRisk,
  kSloMet,
  kForeseen,              // The policy knows the future traffic.
  kCheapestThatKeepsSlo,  // Of the simulated fleets.
  kSchedule,              // A schedule sets the minimum now or soon.
  kWarmPool,              // Spare replicas beyond the needed ones.
  kObserveOnly,           // The rollout phase is observe-only.
  kIdle,                  // There was no traffic for a while: the minimum.
  kFormula,               // The simulations were not finished in time: token rate divided by the capacity of a replica.
  kSloBurns,              // The SLO is missed although simulations predict that the fleet is enough.
  kFollower,              // Another planner leads: hold.
  kScaledToZero,          // The pool has had no requests for long, and may have no replica.
  kFirstReplica,          // The pool has no replica, and requests wait for one.
};

// The limit that kept a target from the proposal of the policy.
enum class Limit : std::uint8_t {
  kNone,
  kMinReplicas,
  kMaxReplicas,
  kGrowthRate,
  kShrinkRate,
  kStabilization,
  kCooldown,  // After a failed action, or while recent proposals or requests count.
  // Nothing shrinks while this holds:
  kStaleTelemetry,      // A ready replica has no recent telemetry.
  kStartingOrDraining,  // Replicas are starting or draining.
  kHotKvCache,
  kQueueWaits,
  kFailures,       // Requests failed recently.
  kConsolidation,  // The remaining replicas could not serve the load.
  kMinEndpoints,   // Too few ready replicas would remain.
  // Nothing grows beyond this:
  kGpuBudget,  // The GPUs that all pools share.
  // Nothing changes while this holds:
  kManualChange,  // Another actor set the target recently.
  kClockJump,     // The clock went back or jumped.
  kRefused,       // The platform refused the change.
  kTakeOver,      // Nothing shrinks at the first tick after another planner has led.
};

// The cause of bad latency.
enum class Cause : std::uint8_t {
  kNone,          // Latency meets the SLO, or there are no requests.
  kUnknown,       // Something may be wrong, and the observation does not show what.
  kQueue,         // More requests arrive than the ready replicas can serve.
  kPrefill,       // Prompts take long to compute, which delays them or the decodes in the same steps.
  kRoutingCache,  // Requests are not routed to their prefix, or to free capacity.
  kAdmission,     // Admission delays or refuses requests.
  kTransfer,      // KV transfers from prefill to decode are slow.
  kColdStart,     // No replica is ready, or the needed replicas are still starting.
  kDecodeBatch,   // Many sequences decode in each step.
  kKvPressure,    // There are no KV blocks for the next request.
  kPreemption,    // Sequences release their KV blocks and start again.
  kEarlySigns,    // Nothing is diagnosed yet, and simulations of the latest traffic predict missed SLOs.
  kClient,        // Clients read their answers more slowly than these are generated.
};

// The rollout of the planner. Each phase does what the previous one does, and more.
enum class RolloutPhase : std::uint8_t {
  kObserve,        // Nothing is requested.
  kGuardrails,     // Bounds and the GPU budget hold.
  kThroughput,     // The throughput loop sets the fleet.
  kLoad,           // The load loop raises it; pools keep their ratio.
  kPhaseSpecific,  // Prefill and decode pools scale independently.
  kCost,           // The fleet may be cheaper than the first choice where the traffic has shown that this is enough.
};

[[nodiscard]] const char* to_string(Reason reason);       // "fixed", "within_tolerance", …
[[nodiscard]] const char* to_string(Limit limit);         // "", "min_replicas", …
[[nodiscard]] const char* to_string(Cause cause);         // "none", "unknown", "queue", …
[[nodiscard]] const char* to_string(RolloutPhase phase);  // "observe", …, "phase-specific", "cost"

// Empty for the last phase.
[[nodiscard]] std::optional<RolloutPhase> next_phase(RolloutPhase phase);

// The value of an enum above with this name; empty if there is none.
template <class Enum>
[[nodiscard]] std::optional<Enum> parse_name(std::string_view name);
// All names of an enum, in the order of its values.
template <class Enum>
[[nodiscard]] std::vector<std::string_view> names_of();

struct Evidence {
  std::string name;  // "request_rate"
  double value = 0.0;
  std::string unit;  // "1/s", "tokens", "share", "ms", "replicas"
};

// A fleet that was simulated before a decision, and the shares of requests that would have met the SLO, from 0 to 1.
struct Candidate {
  std::vector<std::uint32_t> replicas{};  // By pool.
  double slo_attainment = 0.0, ttft_attainment = 0.0, itl_attainment = 0.0;
  bool chosen = false;
  void archive(core::StateArchive& state) {
    state.values_of(replicas, slo_attainment, ttft_attainment, itl_attainment, chosen);
  }
};

// The forecast over the time that a new replica takes to start. An unknown figure is empty.
struct Forecast {
  std::optional<double> requests_per_s{}, input_tokens{}, output_tokens{};  // Lengths are means per request.
  // Recent mean absolute errors of the forecast rate in 1/s: of the policy, and of a forecast without change.
  std::optional<double> error{}, naive_error{};

  [[nodiscard]] bool known() const { return requests_per_s || input_tokens || output_tokens || error || naive_error; }
};

struct PoolDecision {
  std::uint32_t current = 0;  // The previous target of the pool.
  std::uint32_t target = 0;
  Reason reason = Reason::kFixed;
  Limit limited_by = Limit::kNone;
  std::vector<Evidence> evidence{};
  std::optional<std::uint32_t>
      next_phase_target{};  // The target that the next rollout phase would request, if there is one.
  // Replicas to keep asleep beside the target, so that growth can wake them. The decision loop limits it to the room
  // that the target leaves below the maximum of the pool.
  std::uint32_t asleep = 0;
};

// The common basis of the decisions on all pools.
struct Basis {
  std::vector<Candidate> candidates{};  // The simulated fleets in their order.
  std::optional<Cause> cause{};         // The cause of bad latency; empty if the policy does not diagnose.
  std::string diagnosis{};              // The same as a sentence.
  std::optional<RolloutPhase> phase{};  // Empty if the policy has no phases.
  std::optional<Forecast> forecast{};
};

// The decision of a policy at one tick.
struct Decision : Basis {
  std::vector<PoolDecision> pools{};  // One for each pool of the observation, in its order.
};

// The final decision on one pool: an entry of a decision log. A hold has current == target.
struct DecisionRecord : PoolDecision, Basis {
  core::Instant at{};
  std::string policy{}, pool{};
  std::vector<std::string> pools{};  // Names in the order of Candidate::replicas; empty without candidates.
  std::string started{};             // Wall-clock start of the planner, RFC 3339 in UTC; empty in a replay.

  [[nodiscard]] bool changes() const { return current != target; }
};

}  // namespace penstock::decision
