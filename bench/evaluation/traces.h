// What the evaluation replays: four recorded traces at the rates that suit them, and a world that is off in many ways.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "configuration/configuration.h"
#include "core/result.h"

namespace penstock::evaluation {

struct EvaluationTrace {
  std::string_view name, title, file;
  double rate_scale;  // so that peak size (evaluation.h) is about 8 to 20 replicas
  bool day_long;
};
[[nodiscard]] std::span<const EvaluationTrace> evaluation_traces();

// Sizes of the fixed fleets.
inline constexpr options::CountRange kEvaluationFrontier{1, 24};

struct EvaluationScenario {
  std::string workload;                                       // a trace's name, or "synthetic:…"
  std::string name;                                           // what is off
  std::function<void(configuration::Configuration&)> change;  // may be empty
  double trial_step_time_factor = 1.0;  // Factor in the planner's model; the simulated world keeps its own.
};
[[nodiscard]] std::vector<EvaluationScenario> evaluation_scenarios();

// How a quick look shortens the traces that last a day.
inline constexpr core::Duration kQuickWindow = std::chrono::hours{2};

struct EvaluationScope {
  std::string folder;  // Folder of the traces.
  bool quick = false;
  std::uint32_t jobs = 0;
};

// What every policy runs under on this trace. Errors: a file that cannot be read.
[[nodiscard]] core::Result<configuration::Configuration> settings_of(const EvaluationTrace& trace,
                                                                     const EvaluationScope& scope);
// Of a scenario, with the policy under test alone.
[[nodiscard]] core::Result<configuration::Configuration> settings_of(const EvaluationScenario& scenario,
                                                                     const EvaluationScope& scope);

}  // namespace penstock::evaluation
