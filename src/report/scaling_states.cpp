#include "report/scaling_states.h"

#include <algorithm>

#include "decision/figures.h"

namespace penstock::report {

using decision::Limit;
using decision::Reason;

namespace {

// A loop is disabled until the rollout phase activates it.
bool before_phase(const decision::Decision& decision, decision::RolloutPhase acts_from) {
  return decision.phase && *decision.phase < acts_from;
}

// The load loop proposed less than the throughput plan, which is the floor.
bool below_floor(const decision::PoolDecision& decision) {
  const auto proposal = decision::evidence_value(decision, "load_based_target", "replicas");
  const auto floor = decision::evidence_value(decision, "floor", "replicas");
  return proposal && floor && *proposal < *floor && *proposal < decision.current;
}

LoadScaling load_scaling_of(const decision::PoolDecision& decision) {
  if (decision.target > decision.current) return LoadScaling::kScaleUp;
  if (decision.target < decision.current) return LoadScaling::kScaleDown;
  switch (decision.limited_by) {
    case Limit::kStaleTelemetry: return LoadScaling::kNoFpmData;
    case Limit::kStartingOrDraining: return LoadScaling::kScalingInProgress;
    case Limit::kConsolidation: return LoadScaling::kScaleDownRefusedConsolidation;
    case Limit::kManualChange: return LoadScaling::kWorkerCountMismatch;
    default: break;
  }
  switch (decision.reason) {
    case Reason::kFixed: return LoadScaling::kDisabled;
    case Reason::kNoData: return LoadScaling::kNoFpmData;
    case Reason::kInsufficientData: return LoadScaling::kInsufficientData;
    case Reason::kScalingInProgress: return LoadScaling::kScalingInProgress;
    case Reason::kConsolidationRefused: return LoadScaling::kScaleDownRefusedConsolidation;
    default: return below_floor(decision) ? LoadScaling::kScaleDownCappedByThroughput : LoadScaling::kNoChange;
  }
}

ThroughputScaling throughput_scaling_of(const decision::PoolDecision& decision) {
  switch (decision.reason) {
    case Reason::kFixed: return ThroughputScaling::kDisabled;
    case Reason::kNoData: return ThroughputScaling::kNoTrafficData;
    case Reason::kInsufficientData: return ThroughputScaling::kModelNotReady;
    default: return decision.target == decision.current ? ThroughputScaling::kSetLowerBound : ThroughputScaling::kScale;
  }
}

template <class State, std::size_t count>
State most_severe(const decision::Decision& decision, State (*state_of)(const decision::PoolDecision&),
                  const std::array<State, count>& by_weight) {
  auto found = by_weight.end();
  for (const decision::PoolDecision& pool : decision.pools)
    found = std::min(found, std::find(by_weight.begin(), by_weight.end(), state_of(pool)));
  return found == by_weight.end() ? State::kUnset : *found;
}

}  // namespace

LoadScaling load_scaling_state(const decision::Decision& decision) {
  using enum LoadScaling;
  if (before_phase(decision, decision::RolloutPhase::kLoad)) return kDisabled;
  static constexpr std::array kByWeight = {kScaleUp,
                                           kScaleDown,
                                           kNoFpmData,
                                           kWorkerCountMismatch,
                                           kInsufficientData,
                                           kScalingInProgress,
                                           kScaleDownRefusedConsolidation,
                                           kScaleDownCappedByThroughput,
                                           kNoChange,
                                           kDisabled};
  return most_severe(decision, load_scaling_of, kByWeight);
}

ThroughputScaling throughput_scaling_state(const decision::Decision& decision) {
  using enum ThroughputScaling;
  if (before_phase(decision, decision::RolloutPhase::kThroughput)) return kDisabled;
  static constexpr std::array kByWeight = {kScale, kNoTrafficData, kModelNotReady, kSetLowerBound, kDisabled};
  const ThroughputScaling state = most_severe(decision, throughput_scaling_of, kByWeight);
  const bool no_forecast = decision.forecast && !decision.forecast->requests_per_s;
  return state == kSetLowerBound && no_forecast ? kPredictFailed : state;
}

}  // namespace penstock::report
