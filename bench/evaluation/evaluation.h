// The runs of an evaluation and what follows from them: costs at equal attainment and ratios.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "decision/run_result.h"
#include "evaluation/equal_attainment.h"
#include "report/run_info.h"

namespace penstock::evaluation {

inline constexpr double kGoal = 0.99;          // For which GPU-hours are compared and Penstock is set.
inline constexpr double kCheapGoal = 0.95;     // A lower goal, which has to cost less.
inline constexpr double kTransferMin = 0.985;  // Below this, a setting that was tuned elsewhere has failed.
inline constexpr double kComparedAttainments[] = {0.95, 0.98, 0.99, 0.995};

// The figures of one run.
struct Run {
  std::string policy;             // With its setting, if it is not the standard one.
  std::optional<double> setting;  // Of the parameter that is swept, or the replicas of a fixed fleet.
  bool standard = false;          // The setting that the policy has by itself.
  bool transferred = false;       // Run only because the setting was tuned on another trace.
  double attainment = 0.0, gpu_hours = 0.0;
  decision::BurstResult bursts;
  double direction_changes_per_day = 0.0;
  std::uint64_t requests = 0, misses = 0, actions = 0, failed = 0;
  std::uint32_t replicas = 0, peak_replicas = 0;
  double cpu_s = 0.0;         // CPU time of the run, with the search of a clairvoyant.
  std::vector<Run> of_seeds;  // What a pooled() run was made of; empty: it has one seed.
};
[[nodiscard]] Run run_of(const decision::RunResult& result);
// One run out of those with other seeds, at least one: shares of all requests, costs and rates on the mean.
[[nodiscard]] Run pooled(std::span<const Run> runs);

// The runs of a policy, by ascending setting.
struct PolicyRuns {
  std::string policy, parameter;  // "keda-tokens", "utilisation"; empty: it has none.
  std::vector<Run> runs;
};

struct TraceEvaluation {
  std::string name;   // Short, for files and flags: "mooncake".
  std::string title;  // "Mooncake conversation".
  std::string notes;  // What of the trace was replayed, in words; empty: all of it.
  std::string flags;  // Further flags of `penstock replay`.
  report::RunInfo info;
  bool day_long = false;
  bool variant = false;  // Another start-up time of a trace that is evaluated, too: in no mean and no transfer.
  PolicyRuns penstock;
  std::vector<PolicyRuns> peers;
  PolicyRuns fixed;                // Fixed fleets by size.
  std::vector<Run> oracle;         // By goal.
  std::optional<Run> first_half;   // The smallest fixed fleet that reached the goal in the first half.
  std::uint32_t seeds = 1;         // Every run above is the pooled() one of this many seeds.
  double preparation_cpu_s = 0.0;  // CPU time to read the trace, choose the first fleet and load-test a replica.
};

// Penstock with one part off or another one on, on one trace.
struct AblationRow {
  std::string name;       // "no load loop"
  std::string flags;      // Of `penstock replay`; empty: no flag does it.
  std::vector<Run> runs;  // By goal; kGoal is among them.
};
struct AblationEvaluation {
  std::string trace;              // Its title.
  std::vector<AblationRow> rows;  // As shipped first.
};

// The policy under test in a world that is not as it should be.
struct ScenarioEvaluation {
  std::string name;        // "start-up 30 s"
  std::string workload;    // "mooncake"
  bool synthetic = false;  // Synthetic steps and bursts, which the targets leave out.
  Run run;
  double best_possible = 1.0;  // Attainment of the largest fixed fleet on the trace.
  std::uint64_t scale_down_failures = 0;
  std::uint64_t invariants_broken = 0;
  std::string first_broken;  // In words; empty: none.
};

struct Evaluation {
  bool quick = false;
  std::string command;  // The command that writes the page again.
  std::vector<TraceEvaluation> traces;
  std::vector<ScenarioEvaluation> scenarios;
  std::vector<AblationEvaluation> ablations;
  std::string judged;  // The page on Dynamo's replay; empty: there is none.
  double cpu_s = 0.0;  // CPU time of all.
};

// ---- costs at equal attainment, in GPU-hours; empty where the attainment is not reached ----

[[nodiscard]] std::optional<Cost> cost_of(std::span<const Run> runs, double attainment);

struct Rival {
  std::string name;
  double gpu_hours = 0.0;
};
// The cheapest peer, each with the setting that suits this trace best.
[[nodiscard]] std::optional<Rival> best_peer(const TraceEvaluation& trace, double attainment);
// Its run that reached the attainment for the least; null if no peer has one.
[[nodiscard]] const Run* run_of_best_peer(const TraceEvaluation& trace, double attainment);
// The least of the clairvoyant and of all other runs: never above the cost_of() a policy.
[[nodiscard]] std::optional<Cost> oracle_cost(const TraceEvaluation& trace, double attainment);
// The cheapest fixed fleet that reaches kGoal, or the best one that was run.
[[nodiscard]] const Run* cheapest_fixed(const TraceEvaluation& trace);
// The GPU-hours of a run, or those of cheapest_fixed() if it attains less than kTransferMin.
[[nodiscard]] double charged(const TraceEvaluation& trace, const Run& run);
[[nodiscard]] double best_possible(const TraceEvaluation& trace);
// Penstock with this goal; null if it was not run.
[[nodiscard]] const Run* at_goal(const TraceEvaluation& trace, double goal);

// The run with this goal, of runs of a policy that has one; null if there is none.
[[nodiscard]] const Run* at_goal(std::span<const Run> runs, double goal);

// Null if the peer was not run.
[[nodiscard]] const PolicyRuns* find_peer(const TraceEvaluation& trace, std::string_view policy);

// ---- settings that were tuned on another trace ----

// The cheapest setting with which the peer reached kGoal.
[[nodiscard]] std::optional<double> tuned_setting(const PolicyRuns& peer);
// The same on this trace; empty if the peer was not run there.
[[nodiscard]] std::optional<double> tuned_setting(const TraceEvaluation& trace, std::string_view policy);
// A run of the peer with this setting, interpolated between its neighbours; empty outside of the settings that ran.
[[nodiscard]] std::optional<Run> run_at(const PolicyRuns& peer, double setting);
// Of the peers, each charged for the settings of all other traces on the mean, the cheapest. A peer that fails with all
// settings is none, and without any peer the cheapest fixed fleet is what remains. Empty if there is no other trace.
// Variants take part in nothing.
[[nodiscard]] std::optional<Rival> best_peer_tuned_elsewhere(const Evaluation& evaluation,
                                                             const TraceEvaluation& trace);

// ---- further figures ----

// The best peer's attainment in bursts for at most these GPU-hours.
[[nodiscard]] std::optional<double> burst_attainment_of_peers(const TraceEvaluation& trace, double gpu_hours);
// Peers with their standard settings that attain more than `run` for less.
[[nodiscard]] std::vector<std::string> dominated_by(const TraceEvaluation& trace, const Run& run);
// Peers that do so with a setting that was the cheapest at kGoal on another trace.
[[nodiscard]] std::vector<std::string> dominated_by_transferred(const Evaluation& evaluation,
                                                                const TraceEvaluation& trace, const Run& run);

// The mean and the range of a figure of several runs.
struct Spread {
  double mean = 0.0, least = 0.0, most = 0.0;
};
[[nodiscard]] Spread spread_of(std::span<const double> figures);  // At least one figure.

// CPU time by part, for the terminal: a line for each trace and policy, and the sum.
[[nodiscard]] std::string cpu_report(const Evaluation& evaluation);

// Requests that failed though they fitted, and neither because a replica crashed nor because the gateway refused them
// while all engines were full: those that a drain cut off or left behind.
[[nodiscard]] std::uint64_t scale_down_failures(const decision::RunResult& result);

}  // namespace penstock::evaluation
