#include "decision/decision.h"

#include <algorithm>
#include <array>

#include "decision/decision_text.h"

namespace penstock::decision {
namespace {

struct ReasonText {
  const char* name;
  const char* because;  // The reason as a clause.
  const char* until;    // What would change it; empty if the evidence shows it.
};
constexpr std::array<ReasonText, 25> kReasons{{
    {"fixed", "the policy never changes its fleet", "nothing changes it: the policy keeps its fleet"},
    {"within_tolerance", "the load is near the target load of the fleet", ""},
    {"no_data", "there is no telemetry", "decides again once there is telemetry"},
    {"insufficient_data", "there is too little telemetry", "decides again once there is enough telemetry"},
    {"scaling_in_progress", "replicas are starting or draining",
     "decides again once no replica is starting or draining"},
    {"load_above_target", "the load is above the target load of the fleet", ""},
    {"load_below_target", "the load is below the target load of the fleet", ""},
    {"stabilized", "a larger proposal of the last minutes is still in force",
     "follows the lower proposal once the window has passed without a higher one"},
    {"panic", "the load rose suddenly, and the short window decides",
     "follows the long window again once the short one is below the panic threshold"},
    {"saturated", "there is too little spare capacity", ""},
    {"spare_capacity", "one replica less would be enough", ""},
    {"consolidation_refused", "one replica less could not serve the load",
     "shrinks once one replica less would carry the load"},
    {"slo_at_risk", "the SLO is at risk", ""},
    {"slo_met", "the SLO is met with a margin", ""},
    {"foreseen", "the policy knows the future traffic", "nothing changes it: the policy knows the traffic in advance"},
    {"cheapest_that_keeps_slo", "this is the cheapest simulated fleet that meets the SLO", ""},
    {"schedule", "a schedule sets the minimum now or soon, or has just ended",
     "follows the plan again once the floor of the schedule has passed"},
    {"warm_pool", "the warm pool adds ready replicas to the number that the traffic needs",
     "follows the plan, and adds the configured spare replicas"},
    {"observe_only", "the rollout phase is observe-only", "becomes active once the rollout phase allows it"},
    {"idle", "no requests have arrived for a while", "grows as soon as requests arrive"},
    {"token_formula",
     "the simulations did not finish in time, so the token rate divided by the capacity of a replica decides",
     "follows the trials once they are done in time"},
    {"slo_burns", "the SLO is missed although simulations predict that the fleet is enough, so it grows step by step",
     "grows further while the SLO is missed, and shrinks once it is met"},
    {"follower", "another planner leads", "decides once this planner leads"},
    {"scaled_to_zero", "the pool has had no requests for a while and may have no replica",
     "starts the first replica as soon as a request arrives"},
    {"first_replica", "requests wait and the pool has no replica", ""},
}};

struct LimitText {
  const char* name;
  const char* limited_by;  // The limit as a clause.
  const char* until;       // What would remove the limit.
};
constexpr std::array<LimitText, 19> kLimits{{
    {"", "", ""},
    {"min_replicas", "the minimum replicas of the pool", "would shrink further with a lower min_replicas"},
    {"max_replicas", "the maximum replicas of the pool", "would grow further with a higher max_replicas"},
    {"growth_rate", "the allowed growth per minute", "grows further as soon as the allowed growth per minute permits"},
    {"shrink_rate", "the allowed shrinking per step",
     "shrinks further, one step at a time, while the proposal stays lower"},
    {"stabilization", "the stabilisation window: a larger target was proposed recently",
     "shrinks once no larger target was proposed during the whole stabilisation window"},
    {"cooldown", "a cooldown: a scaling action failed, or more replicas were needed recently",
     "changes once the cooldown has passed"},
    {"stale_telemetry", "a ready replica without recent telemetry",
     "shrinks once every ready replica reports telemetry again"},
    {"starting_or_draining", "replicas that are starting or draining",
     "shrinks once no replica is starting or draining"},
    {"hot_kv_cache", "a KV cache that is nearly full", "shrinks once KV cache use has fallen"},
    {"queue_waits", "requests that wait in a queue", "shrinks once no request waits in a queue"},
    {"failures", "requests that failed recently", "shrinks once no request has failed for a while"},
    {"consolidation", "the load, which fewer replicas could not serve",
     "shrinks once fewer replicas could carry the load"},
    {"min_endpoints", "the required minimum of ready replicas",
     "shrinks once more replicas are ready than the required minimum"},
    {"gpu_budget", "the GPU budget of all pools",
     "grows further with a higher GPU budget, or once another pool releases GPUs"},
    {"manual_change", "a target that was recently set manually",
     "decides again once the hold after the manual change has passed"},
    {"clock_jump", "a clock that jumped", "decides again at the next tick if the clock is steady"},
    {"refused", "the platform, which refused the change", "retries, and changes once the platform accepts the change"},
    {"take_over", "the lead that was just taken over from another planner", "shrinks from the next tick on"},
}};

constexpr std::array<const char*, 13> kCauses{
    "none",       "unknown",      "queue",       "prefill",    "routing_cache", "admission", "transfer",
    "cold_start", "decode_batch", "kv_pressure", "preemption", "early_signs",   "client"};
constexpr std::array<const char*, 6> kPhases{"observe", "guardrails", "throughput", "load", "phase-specific", "cost"};

static_assert(kReasons.size() == static_cast<std::size_t>(Reason::kFirstReplica) + 1);
static_assert(kLimits.size() == static_cast<std::size_t>(Limit::kTakeOver) + 1);
static_assert(kCauses.size() == static_cast<std::size_t>(Cause::kClient) + 1);
static_assert(kPhases.size() == static_cast<std::size_t>(RolloutPhase::kCost) + 1);

const ReasonText& text_of(Reason reason) { return kReasons[static_cast<std::size_t>(reason)]; }
const LimitText& text_of(Limit limit) { return kLimits[static_cast<std::size_t>(limit)]; }

template <class Enum>
constexpr std::size_t kValues = 0;
template <>
constexpr std::size_t kValues<Reason> = kReasons.size();
template <>
constexpr std::size_t kValues<Limit> = kLimits.size();
template <>
constexpr std::size_t kValues<Cause> = kCauses.size();
template <>
constexpr std::size_t kValues<RolloutPhase> = kPhases.size();

}  // namespace

const char* to_string(Reason reason) { return text_of(reason).name; }
const char* to_string(Limit limit) { return text_of(limit).name; }
const char* to_string(Cause cause) { return kCauses[static_cast<std::size_t>(cause)]; }
const char* to_string(RolloutPhase phase) { return kPhases[static_cast<std::size_t>(phase)]; }

std::optional<RolloutPhase> next_phase(RolloutPhase phase) {
  if (phase == RolloutPhase::kCost) return std::nullopt;
  return static_cast<RolloutPhase>(static_cast<std::uint8_t>(phase) + 1);
}

const char* because(Reason reason) { return text_of(reason).because; }
const char* until(Reason reason) { return text_of(reason).until; }
const char* limited_by(Limit limit) { return text_of(limit).limited_by; }
const char* until(Limit limit) { return text_of(limit).until; }

template <class Enum>
std::vector<std::string_view> names_of() {
  std::vector<std::string_view> names;
  for (std::size_t i = 0; i < kValues<Enum>; ++i) names.emplace_back(to_string(static_cast<Enum>(i)));
  return names;
}

template <class Enum>
std::optional<Enum> parse_name(std::string_view name) {
  for (std::size_t i = 0; i < kValues<Enum>; ++i)
    if (name == to_string(static_cast<Enum>(i))) return static_cast<Enum>(i);
  return std::nullopt;
}

template std::vector<std::string_view> names_of<Reason>();
template std::vector<std::string_view> names_of<Limit>();
template std::vector<std::string_view> names_of<Cause>();
template std::vector<std::string_view> names_of<RolloutPhase>();
template std::optional<Reason> parse_name(std::string_view);
template std::optional<Limit> parse_name(std::string_view);
template std::optional<Cause> parse_name(std::string_view);
template std::optional<RolloutPhase> parse_name(std::string_view);

}  // namespace penstock::decision
