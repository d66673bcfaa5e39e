// How a policy fares against every mark that it is measured by: figures and verdicts out of runs, nothing assumed.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "report/run_info.h"

namespace penstock::evaluation {

// What is asked for. A page shows these figures; a verdict is computed from them.
struct EvaluationTargets {
  double clairvoyant_points = 1.0;          // Maximum distance in points of attainment …
  double clairvoyant_gpu_hours = 1.15;      // … at so many times its GPU-hours
  double peak_attainment = 0.99;            // Required share of the attainment of a fixed fleet of peak size …
  double peak_gpu_hours = 0.70;             // … at so many times its GPU-hours, on traces of a day
  double rule_violations = 0.5;             // Share of a rule's violations, at no more GPU-hours …
  double rule_gpu_hours = 0.75;             // … or of its GPU-hours, at no lower attainment
  double direction_changes_per_hour = 4.0;  // at most
};

// One trace: every policy from the same initial fleet, and fixed fleets of all sizes.
struct TraceEvaluation {
  std::string name;   // short, for files and flags: "mooncake"
  std::string title;  // "Mooncake conversation"
  report::RunInfo info;
  bool day_long = false;
  std::vector<decision::RunResult> results;   // by policy
  std::vector<decision::RunResult> frontier;  // by size, ascending
};

// The policy under test in a world that is not as it should be.
struct ScenarioEvaluation {
  std::string name;      // "start-up 30 s"
  std::string workload;  // "mooncake", or what was made up
  decision::RunResult result;
  std::optional<double> frontier_points;  // above fixed fleets at its GPU-hours, where those are known
  std::uint64_t scale_down_failures = 0;
  std::uint64_t invariants_broken = 0;
  std::string first_broken;  // in words; empty: none
};

struct Evaluation {
  std::string policy = "penstock";  // under test
  EvaluationTargets targets;
  std::string window;   // what of the day-long traces was replayed, in words; empty: all of it
  std::string command;  // The command that writes the page again.
  std::vector<TraceEvaluation> traces;
  std::vector<ScenarioEvaluation> scenarios;
};

// One run held against another, or against what fixed fleets would have kept.
struct Verdict {
  double points = 0.0;            // Points of attainment above the other policy, 0 to 100.
  double violations_ratio = 0.0;  // to the other's; infinite where it has none and this one does
  double gpu_hours_ratio = 1.0;
  bool reached = false;
};

// Requests that missed the SLO, failed ones included.
[[nodiscard]] std::uint64_t violations(const decision::RunResult& result);
[[nodiscard]] double direction_changes_per_hour(const decision::RunResult& result);
// The first run of that policy; null if there is none.
[[nodiscard]] const decision::RunResult* find_run(std::span<const decision::RunResult> results,
                                                  std::string_view policy);

// What fixed fleets keep for so many GPU-hours: between two sizes by linear interpolation, beneath the smallest towards
// nothing at no cost, beyond the largest as much as that. A larger budget is never worth less, though a larger fleet
// may keep a little less by chance. `frontier` is ascending and not empty.
[[nodiscard]] double frontier_attainment(std::span<const decision::RunResult> frontier, double gpu_hours);

// The smallest fixed fleet to which more replicas add less than 0.1 points: what one would buy for the peak and leave.
[[nodiscard]] const decision::RunResult* peak_fleet(std::span<const decision::RunResult> frontier);

[[nodiscard]] Verdict against_frontier(const decision::RunResult& run, std::span<const decision::RunResult> frontier);
[[nodiscard]] Verdict against_clairvoyant(const decision::RunResult& run, const decision::RunResult& clairvoyant,
                                          const EvaluationTargets& targets);
[[nodiscard]] Verdict against_peak_fleet(const decision::RunResult& run, const decision::RunResult& fleet,
                                         const EvaluationTargets& targets);
[[nodiscard]] Verdict against_rule(const decision::RunResult& run, const decision::RunResult& rule,
                                   const EvaluationTargets& targets);

// Requests that failed though they fitted, and not because a replica crashed: those that a drain cut off or left
// behind.
[[nodiscard]] std::uint64_t scale_down_failures(const decision::RunResult& result);

}  // namespace penstock::evaluation
