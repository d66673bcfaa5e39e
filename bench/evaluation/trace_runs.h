// Runs single policies on a trace that is prepared once.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "configuration/configuration.h"
#include "core/result.h"
#include "decision/run_result.h"
#include "evaluation/evaluation.h"
#include "evaluation/sweep.h"
#include "planner/penstock/penstock_planner.h"
#include "replay/capacities.h"
#include "replay/fixed_fleet.h"
#include "replay/setup.h"
#include "simulation/trials.h"

namespace penstock::evaluation {

// Where a policy is swept.
enum class Rank : std::uint8_t {
  kAlways,  // On days, too: rules that come close to the goal at a low cost somewhere.
  kHours,   // On traces of hours: rules that come close.
  kOther,   // On traces of hours, in the whole evaluation only.
};

// The parameter of a policy that decides how much it keeps.
struct SweptParameter {
  std::string_view policy, name;
  Axis axis;
  double standard = 1.0;
  Rank rank = Rank::kAlways;
};
// Null for a policy without one.
[[nodiscard]] const SweptParameter* swept_parameter(std::string_view policy);

using Progress = std::function<void(double share_done)>;
using PlannerChange = void (*)(planner::PlannerOptions& planner, double goal);

// With several seeds, every run is the pooled() one of a run with each.
class TraceRuns {
 public:
  // Reads the trace and chooses the initial fleet. Errors: files, and an SLO that an idle replica does not meet.
  [[nodiscard]] static core::Result<TraceRuns> prepare(const configuration::Configuration& settings);
  [[nodiscard]] static core::Result<TraceRuns> prepare(const configuration::Configuration& settings,
                                                       std::span<const std::uint64_t> seeds);
  // Load-tests one replica of each pool, for policies that need its capacity.
  [[nodiscard]] core::Result<void> find_capacity();

  [[nodiscard]] const report::RunInfo& info() const { return seeds_.front().setup.info; }  // Of the first seed.

  [[nodiscard]] core::Result<Run> penstock(double goal, const Progress& progress, PlannerChange change = nullptr) const;
  [[nodiscard]] core::Result<Run> clairvoyant(double goal, std::uint64_t requests_simulated,
                                              const Progress& progress) const;
  [[nodiscard]] core::Result<Run> peer(const std::string& policy) const;
  [[nodiscard]] core::Result<Run> fixed(const replay::FleetSizes& replicas) const;
  // The same policy with the first seed, watched for broken invariants, with an error in its model of the engine.
  [[nodiscard]] core::Result<ScenarioEvaluation> watched(double trial_step_time_factor, const Progress& progress) const;

  // The cheapest fixed fleet that reaches the goal among the arrivals of this window; if none does, the cheapest within
  // half a point of the best that was tried.
  [[nodiscard]] core::Result<replay::FleetSizes> smallest_fleet(core::Instant from, core::Instant until,
                                                                double goal = kGoal) const;
  [[nodiscard]] core::Instant middle() const;
  [[nodiscard]] core::Instant scored_from() const { return seeds_.front().setup.options.judged_from; }

 private:
  struct Seed {
    replay::ReplaySetup setup;
    std::vector<replay::PoolCapacity> capacities;
  };
  TraceRuns() = default;
  [[nodiscard]] static simulation::RunOptions options_of(const Seed& seed, const Progress& progress);
  // `run(seed, progress)` with each seed.
  template <class OneRun>
  [[nodiscard]] core::Result<Run> pool(const Progress& progress, const OneRun& run) const;

  std::vector<Seed> seeds_;  // At least one, once prepared.
};

}  // namespace penstock::evaluation
