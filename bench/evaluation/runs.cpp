#include "evaluation/runs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "configuration/traces.h"
#include "evaluation/cpu_time.h"
#include "evaluation/sweep.h"
#include "evaluation/trace_runs.h"
#include "planner/policy.h"
#include "report/format.h"

namespace penstock::evaluation {

using replay::Task;
namespace {

constexpr std::uint64_t kMany = 32'000'000, kSome = 16'000'000, kFew = 4'000'000;

// Runs of a sweep, with those of its first settings.
struct Budget {
  std::uint32_t penstock, always_peer, hours_peer, other_peer, fixed;
  std::vector<double> clairvoyant_goals;
  std::uint64_t clairvoyant_requests;  // See ClairvoyantOptions::requests_simulated.
};

Budget budget_of(const EvaluationTrace& trace, const EvaluationScope& scope) {
  if (scope.quick) return trace.few_runs ? Budget{2, 3, 0, 0, 5, {kGoal}, kFew} : Budget{4, 5, 4, 1, 7, {kGoal}, kFew};
  if (!trace.few_runs) return {7, 10, 8, 8, 9, {kGoal, kCheapGoal, 0.995}, kMany};
  return trace.day_long ? Budget{3, 5, 0, 0, 6, {kGoal}, kFew} : Budget{4, 6, 4, 0, 7, {kGoal}, kSome};
}

std::vector<double> wanted_attainments() { return {kGoal, kCheapGoal, 0.98, 0.995}; }

bool is_static(std::string_view policy) { return policy == "static"; }

class TraceTasks {
 public:
  TraceTasks(const TraceRuns& runs, const Budget& budget, double request_cost, TraceEvaluation& evaluation)
      : runs_(runs),
        budget_(budget),
        clairvoyant_requests_(
            static_cast<std::uint64_t>(static_cast<double>(budget.clairvoyant_requests) / request_cost)),
        evaluation_(evaluation) {}

  // The longest tasks come first.
  std::vector<Task> all() {
    std::vector<Task> tasks;
    evaluation_.penstock = {"penstock", "goal", {}};
    tasks.push_back({"penstock", 20.0 * budget_.penstock, [this](const Progress& progress) {
                       return sweep_policy(*swept_parameter("penstock"), {kGoal, kCheapGoal}, budget_.penstock,
                                           evaluation_.penstock, progress);
                     }});
    evaluation_.oracle.resize(budget_.clairvoyant_goals.size());
    for (std::size_t i = 0; i < evaluation_.oracle.size(); ++i)
      tasks.push_back({"clairvoyant", 40.0, [this, i](const Progress& progress) {
                         const double goal = budget_.clairvoyant_goals[i];
                         const CpuTimer timer;
                         return runs_.clairvoyant(goal, clairvoyant_requests_, progress).map([&](const Run& result) {
                           evaluation_.oracle[i] =
                               named(result, fmt::format("clairvoyant:goal={:g}", goal), goal, timer);
                         });
                       }});
    evaluation_.fixed = {"static", "replicas", {}};
    tasks.push_back({"fixed fleets", 1.0 * budget_.fixed, [this](const Progress&) { return sweep_fixed(); }});
    tasks.push_back({"fixed fleet of the first half", 1.0, [this](const Progress&) { return run_first_half(); }});
    for (const std::string_view policy : planner::policy_names())
      if (!is_static(policy) && runs_of_peer(policy) > 0) evaluation_.peers.push_back({std::string{policy}, {}, {}});
    for (PolicyRuns& peer : evaluation_.peers) tasks.push_back(task_of(peer));
    return tasks;
  }

 private:
  static Run named(Run run, std::string policy, std::optional<double> setting, const CpuTimer& timer) {
    run.policy = std::move(policy);
    run.setting = setting;
    run.cpu_s = timer.seconds();
    return run;
  }

  // Rules without a setting, and those that attain little with any, belong to the other peers.
  [[nodiscard]] std::uint32_t runs_of_peer(std::string_view policy) const {
    const SweptParameter* parameter = swept_parameter(policy);
    if (parameter == nullptr || parameter->rank == Rank::kOther) return budget_.other_peer;
    return parameter->rank == Rank::kAlways ? budget_.always_peer : budget_.hours_peer;
  }

  Task task_of(PolicyRuns& peer) {
    const SweptParameter* parameter = swept_parameter(peer.policy);
    if (parameter == nullptr) return {peer.policy, 1.0, [this, &peer](const Progress&) { return run_standard(peer); }};
    peer.parameter = parameter->name;
    const std::uint32_t runs = runs_of_peer(peer.policy);
    return {peer.policy, 1.0 * runs, [this, parameter, runs, &peer](const Progress& progress) {
              return sweep_policy(*parameter, {parameter->standard}, runs, peer, progress);
            }};
  }

  core::Result<void> run_standard(PolicyRuns& peer) const {
    const CpuTimer timer;
    return runs_.peer(peer.policy).map([&](const Run& result) {
      Run run = named(result, peer.policy, std::nullopt, timer);
      run.standard = true;
      peer.runs.push_back(std::move(run));
    });
  }

  core::Result<void> sweep_policy(const SweptParameter& parameter, std::vector<double> first, std::uint32_t runs_max,
                                  PolicyRuns& into, const Progress& progress) const {
    double done = 0.0;
    const auto attempt = [&](double setting) -> core::Result<Point> {
      const auto part = [&](double share) { progress((done + share) / runs_max); };
      const std::string policy = fmt::format("{}:{}={:.6g}", into.policy, parameter.name, setting);
      const CpuTimer timer;
      const auto result = into.policy == "penstock" ? runs_.penstock(setting, part) : runs_.peer(policy);
      if (!result) return tl::make_unexpected(result.error());
      Run run = named(*result, policy, setting, timer);
      run.standard = std::abs(setting - parameter.standard) < 1e-9;
      into.runs.push_back(run);
      progress(++done / runs_max);
      return Point{run.attainment, run.gpu_hours};
    };
    auto swept = sweep(parameter.axis, {std::move(first), wanted_attainments(), runs_max}, attempt);
    sort_runs(into);
    return swept;
  }

  core::Result<void> sweep_fixed() {
    if (runs_.info().pools.size() > 1) return search_fixed();
    const report::PoolInfo& pool = runs_.info().pools.front();
    const auto attempt = [&](double setting) -> core::Result<Point> {
      const CpuTimer timer;
      const auto result = runs_.fixed({static_cast<std::uint32_t>(setting)});
      if (!result) return tl::make_unexpected(result.error());
      evaluation_.fixed.runs.push_back(named(*result, fmt::format("static {:g}", setting), setting, timer));
      return Point{result->attainment, result->gpu_hours};
    };
    const Axis axis{AxisKind::kCount, 1.0, static_cast<double>(pool.max_replicas)};
    auto swept = sweep(axis, {{static_cast<double>(pool.replicas)}, wanted_attainments(), budget_.fixed, 0.0}, attempt);
    sort_runs(evaluation_.fixed);
    return swept;
  }

  // Of two pools, the cheapest fleet for each attainment, among all splits.
  core::Result<void> search_fixed() {
    evaluation_.fixed.parameter.clear();
    for (const double attainment : kComparedAttainments)
      if (auto done = run_smallest(core::kNever, attainment, evaluation_.fixed.runs); !done) return done;
    return {};
  }

  core::Result<void> run_first_half() {
    if (runs_.middle() <= runs_.scored_from()) return {};  // The trace is too short.
    std::vector<Run> made;
    if (auto done = run_smallest(runs_.middle(), kGoal, made); !done) return done;
    evaluation_.first_half = std::move(made.front());
    return {};
  }

  // Runs the cheapest fixed fleet for the arrivals until then.
  core::Result<void> run_smallest(core::Instant until, double attainment, std::vector<Run>& into) const {
    const CpuTimer timer;
    const auto size = runs_.smallest_fleet(runs_.scored_from(), until, attainment);
    if (!size) return tl::make_unexpected(size.error());
    return runs_.fixed(*size).map([&](const Run& result) {
      std::optional<double> setting;
      if (size->size() == 1) setting = size->front();
      into.push_back(named(result, fmt::format("static {}", fmt::join(*size, " + ")), setting, timer));
    });
  }

  static void sort_runs(PolicyRuns& policy) {
    std::sort(policy.runs.begin(), policy.runs.end(),
              [](const Run& a, const Run& b) { return a.setting.value_or(0.0) < b.setting.value_or(0.0); });
  }

  const TraceRuns& runs_;
  Budget budget_;
  std::uint64_t clairvoyant_requests_;
  TraceEvaluation& evaluation_;
};

std::string notes_of(const EvaluationTrace& trace, const EvaluationScope& scope) {
  if (!scope.quick || !trace.day_long) return {};
  return fmt::format("the busiest {}", report::format_seconds(core::to_seconds(trace.quick_window)));
}

// Settings of peers that were tuned on other traces and that no runs on this one enclose.
std::vector<std::pair<std::size_t, double>> missing_settings(const std::vector<TraceEvaluation>& traces,
                                                             const TraceEvaluation& trace) {
  std::vector<std::pair<std::size_t, double>> missing;
  for (const TraceEvaluation& other : traces) {
    if (other.variant || other.name == trace.name) continue;
    for (std::size_t i = 0; i < trace.peers.size(); ++i) {
      const auto setting = tuned_setting(other, trace.peers[i].policy);
      if (!setting || run_at(trace.peers[i], *setting)) continue;
      if (std::find(missing.begin(), missing.end(), std::pair{i, *setting}) == missing.end())
        missing.emplace_back(i, *setting);
    }
  }
  return missing;
}

}  // namespace

core::Result<TraceEvaluation> evaluate_trace(const EvaluationTrace& trace, const EvaluationScope& scope,
                                             const ShowProgress& show) {
  const CpuTimer timer;
  const auto settings = settings_of(trace, scope);
  if (!settings) return tl::make_unexpected(settings.error());
  auto runs = TraceRuns::prepare(*settings, seeds_of(trace));
  if (!runs) return tl::make_unexpected(runs.error());
  if (auto found = runs->find_capacity(); !found) return tl::make_unexpected(found.error());
  TraceEvaluation evaluation;
  evaluation.seeds = trace.seeds;
  evaluation.preparation_cpu_s = timer.seconds();
  evaluation.name = trace.name;
  evaluation.title = trace.title;
  evaluation.notes = notes_of(trace, scope);
  evaluation.flags = trace.flags;
  evaluation.info = runs->info();
  evaluation.day_long = trace.day_long && !scope.quick;
  evaluation.variant = trace.variant;
  TraceTasks tasks{*runs, budget_of(trace, scope), trace.request_cost, evaluation};
  if (auto done = replay::run_tasks(tasks.all(), scope.jobs, show); !done) return tl::make_unexpected(done.error());
  return evaluation;
}

core::Result<void> run_transfers(std::vector<TraceEvaluation>& traces, const EvaluationScope& scope,
                                 const ShowProgress& show) {
  for (TraceEvaluation& evaluation : traces) {
    if (evaluation.variant || (scope.quick && find_trace(evaluation.name)->few_runs)) continue;
    const auto missing = missing_settings(traces, evaluation);
    if (missing.empty()) continue;
    const EvaluationTrace& trace = *find_trace(evaluation.name);
    const auto settings = settings_of(trace, scope);
    if (!settings) return tl::make_unexpected(settings.error());
    auto runs = TraceRuns::prepare(*settings, seeds_of(trace));
    if (!runs) return tl::make_unexpected(runs.error());
    if (auto found = runs->find_capacity(); !found) return found;
    std::vector<Run> made(missing.size());
    std::vector<Task> tasks;
    for (std::size_t i = 0; i < missing.size(); ++i)
      tasks.push_back({"settings of other traces", 1.0, [&, i](const Progress&) -> core::Result<void> {
                         const PolicyRuns& peer = evaluation.peers[missing[i].first];
                         const std::string policy =
                             fmt::format("{}:{}={:.6g}", peer.policy, peer.parameter, missing[i].second);
                         const CpuTimer timer;
                         const auto result = runs->peer(policy);
                         if (!result) return tl::make_unexpected(result.error());
                         made[i] = *result;
                         made[i].policy = policy;
                         made[i].setting = missing[i].second;
                         made[i].transferred = true;
                         made[i].cpu_s = timer.seconds();
                         return {};
                       }});
    if (auto done = replay::run_tasks(tasks, scope.jobs, show); !done) return done;
    for (std::size_t i = 0; i < missing.size(); ++i) {
      std::vector<Run>& into = evaluation.peers[missing[i].first].runs;
      const auto after =
          std::find_if(into.begin(), into.end(), [&](const Run& run) { return *run.setting > *made[i].setting; });
      into.insert(after, std::move(made[i]));
    }
  }
  return {};
}

core::Result<std::vector<ScenarioEvaluation>> evaluate_scenarios(const std::vector<EvaluationScenario>& scenarios,
                                                                 const EvaluationScope& scope,
                                                                 const ShowProgress& show) {
  std::vector<ScenarioEvaluation> evaluations(scenarios.size());
  std::vector<Task> tasks;
  for (std::size_t i = 0; i < scenarios.size(); ++i)
    tasks.push_back({scenarios[i].name, 1.0, [&, i](const Progress& progress) -> core::Result<void> {
                       const EvaluationScenario& scenario = scenarios[i];
                       const CpuTimer timer;
                       const auto settings = settings_of(scenario, scope);
                       if (!settings) return tl::make_unexpected(settings.error());
                       const auto runs = TraceRuns::prepare(*settings);
                       if (!runs) return tl::make_unexpected(runs.error());
                       auto evaluation = runs->watched(scenario.trial_step_time_factor, progress);
                       if (!evaluation) return tl::make_unexpected(evaluation.error());
                       evaluations[i] = *std::move(evaluation);
                       evaluations[i].name = scenario.name;
                       evaluations[i].run.cpu_s = timer.seconds();
                       evaluations[i].synthetic = scenario.workload.starts_with(configuration::kSyntheticTrace);
                       evaluations[i].workload = evaluations[i].synthetic ? "synthetic" : scenario.workload;
                       return {};
                     }});
  if (auto done = replay::run_tasks(tasks, scope.jobs, show); !done) return tl::make_unexpected(done.error());
  return evaluations;
}

}  // namespace penstock::evaluation
