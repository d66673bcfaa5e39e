// What the evaluation replays: recorded traces at the rates that suit them, and a world that is off in many ways.
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
  std::string_view name, title, file;  // A file of the folder, or "built-in".
  double rate_scale = 1.0;             // So that the peak needs about 5 to 20 replicas.
  core::Duration spread{};             // Of the copies; 0: the default of a replay.
  bool day_long = false;
  core::Duration quick_window{};  // What a quick look replays of a day.
  core::Duration start_up = std::chrono::seconds{120};
  bool variant = false;       // See TraceEvaluation.
  bool in_quick = true;       // A quick look has it, too.
  std::string_view flags{};   // Further flags of `penstock replay`, such as another engine or a second pool.
  bool few_runs = false;      // With fewer settings and fewer peers, as a day.
  double request_cost = 1.0;  // CPU time of a simulated request, relative to that of the other traces.
  std::uint32_t seeds = 1;    // Of which router, built-in workload and scaled copies draw: all rows pool all seeds.
};
[[nodiscard]] std::span<const EvaluationTrace> evaluation_traces();
[[nodiscard]] std::span<const std::uint64_t> seeds_of(const EvaluationTrace& trace);
// Null if there is none of this name.
[[nodiscard]] const EvaluationTrace* find_trace(std::string_view name);

struct EvaluationScenario {
  std::string workload;                                       // A trace's name, or "synthetic:…".
  std::string name;                                           // What is off.
  std::function<void(configuration::Configuration&)> change;  // May be empty.
  double trial_step_time_factor = 1.0;  // Factor in the planner's model; the simulated world keeps its own.
};
// A quick look leaves out those of one trace.
[[nodiscard]] std::vector<EvaluationScenario> evaluation_scenarios(bool quick = false);

struct EvaluationScope {
  std::string folder;  // Folder of the traces.
  bool quick = false;
  std::uint32_t jobs = 0;
};

// Flags of `penstock replay`, separated by spaces: "--router live --wake-time 8s". Errors: those of the flags.
[[nodiscard]] core::Result<configuration::Configuration> settings_of_flags(std::string_view flags);

// What every policy runs under on this trace. `more_flags` override those of the trace. Errors: a file that cannot be
// read, and invalid flags.
[[nodiscard]] core::Result<configuration::Configuration> settings_of(const EvaluationTrace& trace,
                                                                     const EvaluationScope& scope,
                                                                     std::string_view more_flags = {});
// Of a scenario, with the policy under test alone.
[[nodiscard]] core::Result<configuration::Configuration> settings_of(const EvaluationScenario& scenario,
                                                                     const EvaluationScope& scope);

// Scores begin once a policy could react twice: 2 × start-up + 3 min.
[[nodiscard]] core::Duration scored_from(core::Duration start_up);

}  // namespace penstock::evaluation
