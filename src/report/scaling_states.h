// The states of Dynamo's two scaling loops, which its dashboards show, derived from a decision.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "decision/decision.h"

namespace penstock::report {

// State of the loop that reacts to load. Names and order are Dynamo's.
enum class LoadScaling : std::uint8_t {
  kUnset,
  kDisabled,
  kNoFpmData,
  kScalingInProgress,
  kWorkerCountMismatch,
  kInsufficientData,
  kNoChange,
  kScaleUp,
  kScaleDown,
  kScaleDownCappedByThroughput,
  kScaleDownRefusedConsolidation
};
inline constexpr std::array<std::string_view, 11> kLoadScalingStates = {"unset",
                                                                        "disabled",
                                                                        "no_fpm_data",
                                                                        "scaling_in_progress",
                                                                        "worker_count_mismatch",
                                                                        "insufficient_data",
                                                                        "no_change",
                                                                        "scale_up",
                                                                        "scale_down",
                                                                        "scale_down_capped_by_throughput",
                                                                        "scale_down_refused_consolidation"};

// State of the loop that plans for the expected throughput.
enum class ThroughputScaling : std::uint8_t {
  kUnset,
  kDisabled,
  kNoTrafficData,
  kPredictFailed,
  kModelNotReady,
  kSetLowerBound,
  kScale
};
inline constexpr std::array<std::string_view, 7> kThroughputScalingStates = {
    "unset", "disabled", "no_traffic_data", "predict_failed", "model_not_ready", "set_lower_bound", "scale"};

// Dynamo has one state for all pools: a change precedes a hold, growth precedes shrinking, then the most severe hold
// counts.
[[nodiscard]] LoadScaling load_scaling_state(const decision::Decision& decision);
[[nodiscard]] ThroughputScaling throughput_scaling_state(const decision::Decision& decision);

}  // namespace penstock::report
