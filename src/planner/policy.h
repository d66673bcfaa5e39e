// One interface for Penstock's planner and for every peer it is compared with: an observation in, a decision out.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"
#include "core/time.h"
#include "signals/observation.h"
#include "signals/run_result.h"

namespace penstock::planner {

// Why a pool's target is what it is. Names are stable: logs, metrics and reports print them.
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
[[nodiscard]] const char* to_string(Reason reason);  // "fixed", "within_tolerance", …

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
  kStaleTelemetry,   // a ready replica was not heard of lately
  kScalingUnderWay,  // replicas start or drain
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
[[nodiscard]] const char* to_string(Limit limit);  // "", "min_replicas", …

struct Evidence {
  const char* name;  // "request_rate"
  double value;
  const char* unit;  // "1/s", "tokens", "share", "ms", "replicas"
};

struct PoolDecision {
  std::uint32_t current = 0;  // the pool's target before
  std::uint32_t target = 0;
  Reason reason = Reason::kFixed;
  Limit limited_by = Limit::kNone;
  std::vector<Evidence> evidence{};
  std::optional<std::uint32_t>
      next_phase_target{};  // what the next rollout phase would ask for; none: this is the last
};

// The evidence as a sentence: "request_rate 12.4 1/s, target 2 1/s".
[[nodiscard]] std::string sentence(const PoolDecision& decision);

// A fleet that was tried out before a decision, and what it would have kept.
struct Candidate {
  std::vector<std::uint32_t> replicas;  // by pool
  double slo_attainment = 0.0;          // shares of the tried requests, 0..1
  double ttft_attainment = 0.0;
  double itl_attainment = 0.0;
  bool chosen = false;
};

// What is expected over the start-up time, and how good such forecasts of the rate have been lately.
struct Outlook {
  std::optional<double> requests_per_s, input_tokens, output_tokens;  // lengths are means; none: not known yet
  std::optional<double> error, naive_error;  // mean absolute errors of the rate in 1/s; of "no change" the second
};

struct Decision {
  std::vector<PoolDecision> pools{};  // one for each pool of the observation, in its order
  std::vector<Candidate>
      candidates{};         // what the policy tried out, in the order of the trials; empty: it tries nothing
  std::string cause{};      // of bad latency, a stable name ("none", "queue", …); empty: not diagnosed
  std::string diagnosis{};  // the same in words
  std::string phase{};      // the rollout phase that it is in; empty: the policy knows none
  std::optional<Outlook> outlook{};
};

// A policy holds its windows and nothing else; time comes with the observation. Not thread-safe; one per run.
class Policy {
 public:
  virtual ~Policy() = default;
  [[nodiscard]] virtual std::string_view name() const = 0;
  // Time between decisions; Duration::max() for a policy that decides only once, at the start.
  [[nodiscard]] virtual core::Duration interval() const = 0;
  // How far back it wants to see single requests in Observation::recent.
  [[nodiscard]] virtual core::Duration memory() const { return core::Duration{}; }
  // Whether it looks at PoolObservation::detail, which costs time on the path of every request.
  [[nodiscard]] virtual bool wants_segments() const { return false; }
  [[nodiscard]] virtual Decision decide(const signals::Observation& observation) = 0;
};

// What one replica of a pool carries within the SLO: what an engineer would load-test before writing a target down.
struct ReplicaCapacity {
  double requests_per_s = 1.0;
  double input_tokens_per_s = 1.0;
  double output_tokens_per_s = 1.0;
  double concurrency = 1.0;  // mean requests in flight at that rate
};

// One for all pools that a policy decides on. Where prefill and decode replicas carry different things, each pool has a
// policy with a context of its own, which still sees all pools.
struct PolicyContext {
  ReplicaCapacity capacity;
  signals::SloTarget slo;
  std::uint64_t max_batched_tokens = 8192;
  std::uint64_t max_sequences = 256;
  std::uint64_t context_length = 131072;  // longest prompt the model takes
};

// "static", "hpa-rate", "hpa-concurrency", "keda-tokens", "kpa", "apa", "llmd-saturation-v1", "llmd-saturation-v2",
// "llmd-slo", "dynamo-throughput", "dynamo-latency". An unknown name is an error that lists these.
[[nodiscard]] core::Result<std::unique_ptr<Policy>> make_policy(std::string_view name, const PolicyContext& context);
[[nodiscard]] std::vector<std::string_view> policy_names();
// One line on the rule and its source, for --help and the reports.
[[nodiscard]] std::string_view policy_summary(std::string_view name);

}  // namespace penstock::planner
