#include "evaluation/studies.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>
#include <utility>

#include "evaluation/cpu_time.h"
#include "evaluation/trace_runs.h"
#include "planner/policy.h"

namespace penstock::evaluation {

using replay::Task;
namespace {

constexpr core::Duration kFirstHold = std::chrono::minutes{5};  // Of the first controller for a goal of 99 %.

constexpr std::string_view kPools = "azure-pools";

constexpr std::array kAblations{
    Ablation{.name = "as shipped", .on_days = true},
    Ablation{.name = "traffic as it is: neither likely loads nor backtest",
             .change =
                 [](planner::PlannerOptions& planner, double) {
                   planner.controller = {1.0, kFirstHold};
                 },
             .on_days = true},
    Ablation{.name = "first controller: no backtest",
             .change =
                 [](planner::PlannerOptions& planner, double goal) {
                   planner.controller = {1.0 - goal, kFirstHold};
                 },
             .on_days = true},
    Ablation{.name = "no trials: full queues and KV caches", .flags = "--target throughput"},
    Ablation{.name = "never cheaper than the first controller", .flags = "--phase phase-specific", .on_days = true},
    Ablation{.name = "replicas asleep", .flags = "--wake-time 8s", .on_days = true},
    Ablation{.name = "no load loop", .flags = "--load-interval 0s"},
    Ablation{.name = "no throughput loop", .flags = "--throughput-interval 0s"},
    Ablation{.name = "KV router of Dynamo, no gateway", .flags = "--router kv"},
    Ablation{.name = "round robin, no gateway", .flags = "--router round-robin"},
    Ablation{.name = "pools in a fixed ratio", .flags = "--phase load", .only_on = kPools},
    Ablation{.name = "replicas change their role", .flags = "--switch-time 20s", .only_on = kPools},
};

Run named(Run run, std::optional<double> setting, const CpuTimer& timer) {
  run.setting = setting;
  run.cpu_s = timer.seconds();
  return run;
}

core::Result<void> run_row(const EvaluationTrace& trace, const Ablation& ablation, const std::vector<double>& goals,
                           const EvaluationScope& scope, const Progress& progress, AblationRow& row) {
  const auto settings = settings_of(trace, scope, ablation.flags);
  if (!settings) return tl::make_unexpected(settings.error());
  const auto runs = TraceRuns::prepare(*settings, seeds_of(trace));
  if (!runs) return tl::make_unexpected(runs.error());
  for (std::size_t i = 0; i < goals.size(); ++i) {
    const CpuTimer timer;
    const auto part = [&](double share) {
      progress((static_cast<double>(i) + share) / static_cast<double>(goals.size()));
    };
    const auto result = runs->penstock(goals[i], part, ablation.change);
    if (!result) return tl::make_unexpected(result.error());
    row.runs.push_back(named(*result, goals[i], timer));
  }
  return {};
}

}  // namespace

std::span<const Ablation> ablations() { return kAblations; }

std::vector<AblationTrace> ablation_traces(const EvaluationScope& scope) {
  if (scope.quick) return {{"azure", {kGoal}}};
  const std::vector<double> goals{kCheapGoal, kGoal};
  return {{"mooncake", goals}, {"azure", goals}, {kPools, goals}, {"servegen-large", {kGoal}}};
}

core::Result<std::vector<AblationEvaluation>> evaluate_ablations(const EvaluationScope& scope,
                                                                 std::span<const std::string> evaluated,
                                                                 const ShowProgress& show) {
  const std::vector<AblationTrace> on = ablation_traces(scope);
  std::vector<AblationEvaluation> evaluations(on.size());
  std::vector<Task> tasks;
  for (std::size_t i = 0; i < on.size(); ++i) {
    const EvaluationTrace& trace = *find_trace(on[i].name);
    evaluations[i].trace = trace.title;
    std::vector<const Ablation*> chosen;
    for (const Ablation& ablation : kAblations)
      if ((ablation.only_on.empty() || ablation.only_on == trace.name) && (ablation.on_days || !trace.day_long))
        chosen.push_back(&ablation);
    evaluations[i].rows.resize(chosen.size());
    const bool shipped_runs = std::find(evaluated.begin(), evaluated.end(), trace.name) != evaluated.end();
    for (std::size_t row = 0; row < chosen.size(); ++row) {
      AblationRow& into = evaluations[i].rows[row];
      into = {std::string{chosen[row]->name}, std::string{chosen[row]->flags}, {}};
      if (row == 0 && shipped_runs) continue;
      tasks.push_back({into.name, trace.day_long ? 20.0 : 1.0,
                       [&trace, ablation = chosen[row], &goals = on[i].goals, &scope, &into](const Progress& progress) {
                         return run_row(trace, *ablation, goals, scope, progress, into);
                       }});
    }
  }
  if (auto done = replay::run_tasks(tasks, scope.jobs, show); !done) return tl::make_unexpected(done.error());
  return evaluations;
}

void fill_shipped(Evaluation& evaluation) {
  for (AblationEvaluation& ablation : evaluation.ablations)
    for (const TraceEvaluation& trace : evaluation.traces)
      if (std::vector<Run>& runs = ablation.rows.front().runs; trace.title == ablation.trace && runs.empty()) {
        // With the goals of the other rows: interpolation between fewer runs gives another cost.
        const auto is_compared = [&](const Run& run) {
          return std::any_of(ablation.rows.back().runs.begin(), ablation.rows.back().runs.end(),
                             [&](const Run& other) { return other.setting == run.setting; });
        };
        std::copy_if(trace.penstock.runs.begin(), trace.penstock.runs.end(), std::back_inserter(runs), is_compared);
        for (Run& run : runs) run.cpu_s = 0.0;  // It counts on the trace.
      }
}

}  // namespace penstock::evaluation
