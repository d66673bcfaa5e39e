#include "evaluation/studies.h"

#include <array>
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

const Run* run_with(const PolicyRuns& policy, double setting) {
  for (const Run& run : policy.runs)
    if (run.setting && *run.setting == setting) return &run;
  return nullptr;
}

// The best peer of the trace with its best setting; empty if no peer reached the goal.
struct Chosen {
  std::string policy;  // With its setting.
  Run run;
};
std::optional<Chosen> chosen_peer(const TraceEvaluation& trace) {
  const auto best = best_peer(trace, kGoal);
  const PolicyRuns* peer = best ? find_peer(trace, best->name) : nullptr;
  const auto setting = peer == nullptr ? std::nullopt : tuned_setting(*peer);
  const Run* run = setting ? run_with(*peer, *setting) : nullptr;
  if (run == nullptr) return std::nullopt;
  return Chosen{run->policy, *run};
}

core::Result<SeedRuns> run_seed(const EvaluationTrace& trace, std::uint64_t seed, const std::optional<Chosen>& chosen,
                                const EvaluationScope& scope) {
  const auto settings = settings_of(trace, scope);
  if (!settings) return tl::make_unexpected(settings.error());
  auto runs = TraceRuns::prepare(*settings, std::span{&seed, 1});
  if (!runs) return tl::make_unexpected(runs.error());
  SeedRuns made{seed, {}, {}};
  const CpuTimer timer;
  const auto own = runs->penstock(kGoal, {});
  if (!own) return tl::make_unexpected(own.error());
  made.penstock = named(*own, kGoal, timer);
  if (!chosen) return made;
  if (auto found = runs->find_capacity(); !found) return tl::make_unexpected(found.error());
  const CpuTimer peer_timer;
  const auto other = runs->peer(chosen->policy);
  if (!other) return tl::make_unexpected(other.error());
  made.peer = named(*other, chosen->run.setting, peer_timer);
  made.peer->policy = chosen->policy;
  return made;
}

core::Result<void> run_row(const EvaluationTrace& trace, const Ablation& ablation, const std::vector<double>& goals,
                           const EvaluationScope& scope, const Progress& progress, AblationRow& row) {
  const auto settings = settings_of(trace, scope, ablation.flags);
  if (!settings) return tl::make_unexpected(settings.error());
  const auto runs = TraceRuns::prepare(*settings);
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
  const std::vector<double> goals{kCheapGoal, kGoal, 0.995};
  return {{"mooncake", goals}, {"azure", goals}, {kPools, goals}, {"servegen-large", {kGoal}}};
}

core::Result<void> run_seeds(std::vector<TraceEvaluation>& traces, const EvaluationScope& scope,
                             const ShowProgress& show) {
  std::vector<Task> tasks;
  for (TraceEvaluation& evaluation : traces) {
    const EvaluationTrace* trace = find_trace(evaluation.name);
    const Run* shipped = at_goal(evaluation, kGoal);
    if (trace == nullptr || trace->seeds == 1 || shipped == nullptr) continue;
    const std::optional<Chosen> chosen = chosen_peer(evaluation);
    const std::span<const std::uint64_t> seeds = seeds_of(*trace);
    evaluation.seeds.resize(seeds.size());
    for (std::size_t i = 0; i < seeds.size(); ++i) {
      if (!trace->drawn && seeds[i] == evaluation.info.seed) {
        evaluation.seeds[i] = {seeds[i], *shipped, chosen ? std::optional{chosen->run} : std::nullopt};
        continue;
      }
      tasks.push_back({"other seeds", 1.0, [&evaluation, trace, chosen, &scope, seeds, i](const Progress&) {
                         return run_seed(*trace, seeds[i], chosen, scope).map([&](SeedRuns made) {
                           evaluation.seeds[i] = std::move(made);
                         });
                       }});
    }
  }
  return replay::run_tasks(tasks, scope.jobs, show);
}

core::Result<std::vector<AblationEvaluation>> evaluate_ablations(const EvaluationScope& scope,
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
    for (std::size_t row = 0; row < chosen.size(); ++row) {
      AblationRow& into = evaluations[i].rows[row];
      into = {std::string{chosen[row]->name}, std::string{chosen[row]->flags}, {}};
      tasks.push_back({into.name, trace.day_long ? 20.0 : 1.0,
                       [&trace, ablation = chosen[row], &goals = on[i].goals, &scope, &into](const Progress& progress) {
                         return run_row(trace, *ablation, goals, scope, progress, into);
                       }});
    }
  }
  if (auto done = replay::run_tasks(tasks, scope.jobs, show); !done) return tl::make_unexpected(done.error());
  return evaluations;
}

}  // namespace penstock::evaluation
