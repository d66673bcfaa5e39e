// Runs single policies on a trace that is prepared once.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "configuration/configuration.h"
#include "core/result.h"
#include "decision/run_result.h"
#include "evaluation/evaluation.h"
#include "evaluation/sweep.h"
#include "replay/capacities.h"
#include "replay/setup.h"
#include "simulation/trials.h"

namespace penstock::evaluation {

// The parameter of a policy that decides how much it keeps.
struct SweptParameter {
  std::string_view policy, name;
  Axis axis;
  double standard = 1.0;
  bool major = true;  // Swept in a quick look, too.
};
// Null for a policy without one.
[[nodiscard]] const SweptParameter* swept_parameter(std::string_view policy);

using Progress = std::function<void(double share_done)>;

class TraceRuns {
 public:
  // Reads the trace and chooses the initial fleet. Errors: files, and an SLO that an idle replica does not meet.
  [[nodiscard]] static core::Result<TraceRuns> prepare(configuration::Configuration settings);
  // Load-tests one replica, for policies that need its capacity.
  [[nodiscard]] core::Result<void> find_capacity();

  [[nodiscard]] const report::RunInfo& info() const { return setup_.info; }

  [[nodiscard]] core::Result<decision::RunResult> penstock(double goal, const Progress& progress) const;
  [[nodiscard]] core::Result<decision::RunResult> clairvoyant(double goal, const Progress& progress) const;
  [[nodiscard]] core::Result<decision::RunResult> peer(const std::string& policy) const;
  [[nodiscard]] core::Result<decision::RunResult> fixed(std::uint32_t replicas) const;
  // The same policy watched for broken invariants, with an error in its model of the engine.
  [[nodiscard]] core::Result<ScenarioEvaluation> watched(double trial_step_time_factor, const Progress& progress) const;

  // The smallest fixed fleet that reaches kGoal among the arrivals of this window; if none does, the smallest within
  // half a point of the best that was tried.
  [[nodiscard]] core::Result<std::uint32_t> smallest_fleet(core::Instant from, core::Instant until) const;
  [[nodiscard]] core::Instant middle() const;
  [[nodiscard]] core::Instant scored_from() const { return setup_.options.judged_from; }

 private:
  explicit TraceRuns(replay::ReplaySetup setup) : setup_(std::move(setup)) {}
  [[nodiscard]] simulation::RunOptions options(const Progress& progress) const;

  replay::ReplaySetup setup_;
  std::vector<replay::PoolCapacity> capacities_;
};

}  // namespace penstock::evaluation
