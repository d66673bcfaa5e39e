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

// Why a pool's target is what it is. The names of all enums here are stable: logs, metrics and reports print them.
enum class Reason : std::uint8_t {
  kFixed,              // the policy never changes it
  kWithinTolerance,    // the signal is near its target
  kNoData,             // nothing to decide on: hold
  kInsufficientData,   // too little yet: hold
  kScalingInProgress,  // waits for replicas that start or drain
  kLoadAboveTarget,
  kLoadBelowTarget,
  kStabilized,            // an earlier recommendation of the window holds
  kPanic,                 // the short window rules
  kSaturated,             // spare capacity below its trigger
  kSpareCapacity,         // one replica less would still do
  kConsolidationRefused,  // one replica less would not do
  kSloAtRisk,
  kSloMet,
  kForeseen,              // a policy that knows the future
  kCheapestThatKeepsSlo,  // of the fleets that were tried out
  kSchedule,              // a floor of the calendar, now or soon
  kWarmPool,              // spare replicas beyond what is needed
  kObserveOnly,           // the rollout phase lets nothing act
  kIdle,                  // no traffic for a while: the least there may be
  kFormula,               // the trials were not done in time: token rates over what a replica carries
  kSloBurns,              // the SLO is missed although trials say that the fleet would do
};

// What kept a target from being what the policy wanted.
enum class Limit : std::uint8_t {
  kNone,
  kMinReplicas,
  kMaxReplicas,
  kGrowthRate,
  kShrinkRate,
  kStabilization,
  kCooldown,
  // Nothing shrinks while …
  kStaleTelemetry,     // a ready replica has not reported lately
  kStartingOrDraining,  // Replicas are starting or draining.
  kHotKvCache,
  kQueueWaits,
  kFailures,       // requests failed lately
  kConsolidation,  // the replicas that were left could not carry the load
  kMinEndpoints,   // too few would be left that are ready
  // Nothing grows beyond …
  kGpuBudget,  // the GPUs that all pools share
  // Nothing changes while …
  kManualChange,  // somebody else set the target lately
  kClockJump,     // the clock went back or leapt
  kRefused,       // the platform refused the change
};

// Why latency is bad.
enum class Cause : std::uint8_t {
  kNone,          // latency keeps the SLO, or there are no requests
  kUnknown,       // something is wrong, or may be, and the observation does not show why
  kQueue,         // more arrives than the ready replicas serve
  kPrefill,       // prompts take long to compute, for themselves or for the decodes beside them
  kRoutingCache,  // requests do not go where their prefix is, or where there is room
  kAdmission,     // requests are held back or refused by admission
  kTransfer,      // KV moves slowly from prefill to decode
  kColdStart,     // no replica is ready, or those that would serve are still starting
  kDecodeBatch,   // many sequences decode in each step
  kKvPressure,    // there is no KV for the next request
  kPreemption,    // sequences give up their KV and start again
  kEarlySigns,    // nothing is diagnosed yet, and the planner acts on what trials of the latest traffic say
};

// How much of the planner acts. Each phase does what the one before it does, and more.
enum class RolloutPhase : std::uint8_t {
  kObserve,        // nothing is requested
  kGuardrails,     // bounds and the GPU budget hold
  kThroughput,     // the throughput loop sets the fleet
  kLoad,           // the load loop raises it; pools keep their ratio
  kPhaseSpecific,  // prefill and decode pools scale each by its own need
  kCost,           // once the SLO has held for a while, headroom is what the traffic has shown to need
};

[[nodiscard]] const char* to_string(Reason reason);       // "fixed", "within_tolerance", …
[[nodiscard]] const char* to_string(Limit limit);         // "", "min_replicas", …
[[nodiscard]] const char* to_string(Cause cause);         // "none", "unknown", "queue", …
[[nodiscard]] const char* to_string(RolloutPhase phase);  // "observe", …, "phase-specific", "cost"

// Empty for the last.
[[nodiscard]] std::optional<RolloutPhase> next_phase(RolloutPhase phase);

// The value of an enum above with this name; none where there is no such name.
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

// A fleet that was tried out before a decision, and the shares of the tried requests that would have met the SLO, 0..1.
struct Candidate {
  std::vector<std::uint32_t> replicas{};  // by pool
  double slo_attainment = 0.0, ttft_attainment = 0.0, itl_attainment = 0.0;
  bool chosen = false;
  void archive(core::StateArchive& state) {
    state.values_of(replicas, slo_attainment, ttft_attainment, itl_attainment, chosen);
  }
};

// What is expected over the time that a new replica takes to start. A figure that is not known has no value.
struct Forecast {
  std::optional<double> requests_per_s{}, input_tokens{}, output_tokens{};  // lengths are means of a request
  // Mean absolute errors of such forecasts of the rate lately, in 1/s: the policy's, and of the forecast "no change".
  std::optional<double> error{}, naive_error{};

  [[nodiscard]] bool known() const { return requests_per_s || input_tokens || output_tokens || error || naive_error; }
};

struct PoolDecision {
  std::uint32_t current = 0;  // the pool's target before
  std::uint32_t target = 0;
  Reason reason = Reason::kFixed;
  Limit limited_by = Limit::kNone;
  std::vector<Evidence> evidence{};
  std::optional<std::uint32_t> next_phase_target{};  // what the next rollout phase would request; none: there is none
};

// What the decisions on all pools rest on together.
struct Basis {
  std::vector<Candidate> candidates{};  // what the policy tried out, in the order of the trials
  std::optional<Cause> cause{};         // of bad latency; none: the policy does not diagnose
  std::string diagnosis{};              // the same as a sentence
  std::optional<RolloutPhase> phase{};  // none: the policy has no phases
  std::optional<Forecast> forecast{};
};

// What a policy decides at one tick.
struct Decision : Basis {
  std::vector<PoolDecision> pools{};  // one for each pool of the observation, in its order
};

// The decision on one pool as it came to be: an entry of a decision log. A hold has current == target.
struct DecisionRecord : PoolDecision, Basis {
  core::Instant at{};
  std::string policy{}, pool{};
  std::vector<std::string> pools{};  // names, in the order of Candidate::replicas; empty where nothing was tried

  [[nodiscard]] bool changes() const { return current != target; }
};

}  // namespace penstock::decision
