#include "evaluation/runs.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "configuration/traces.h"
#include "evaluation/watch.h"
#include "replay/capacities.h"
#include "replay/planner_setup.h"
#include "replay/runs.h"
#include "replay/setup.h"
#include "simulation/trials.h"

namespace penstock::evaluation {

using namespace configuration;
using namespace replay;
namespace {

// Settings and workload, the capacity of a replica found once, and the initial fleet that follows from it.
core::Result<ReplaySetup> prepare(Configuration settings) {
  auto setup = prepare_replay(std::move(settings));
  if (!setup) return setup;
  const auto found = find_capacity(*setup, 0);
  if (!found) return tl::make_unexpected(found.error());
  const planner::ReplicaCapacity& capacity = found->capacity;
  setup->configuration.capacity = {capacity.requests_per_s, capacity.input_tokens_per_s, capacity.output_tokens_per_s,
                                   capacity.concurrency};
  simulation::PoolSpec& pool = setup->options.pools.front();
  const double seconds = std::max(1.0, core::to_seconds(setup->workload.span()));
  const double needed = static_cast<double>(setup->workload.requests.size()) / seconds / capacity.requests_per_s;
  pool.replicas =
      static_cast<std::uint32_t>(std::clamp<double>(std::ceil(needed), pool.min_replicas, pool.max_replicas));
  setup->info.pools.front().replicas = pool.replicas;
  return setup;
}

bool is_made_up(const EvaluationScenario& scenario) { return scenario.workload.starts_with(kSyntheticTrace); }

// What fixed fleets keep in the world of a scenario: those of its trace, or run here where it was made up. Empty where
// faults of replicas make it another world.
core::Result<std::vector<decision::RunResult>> fixed_fleets(const EvaluationScenario& scenario, ReplaySetup setup,
                                                            const std::vector<TraceEvaluation>& traces) {
  const simulation::Faults& faults = setup.options.faults;
  if (faults.crashes_per_replica_hour > 0.0 || !faults.events.empty()) return {};
  for (const TraceEvaluation& trace : traces)
    if (trace.name == scenario.workload) return trace.frontier;
  if (!is_made_up(scenario)) return {};
  setup.configuration.policies.clear();
  setup.configuration.frontier = kEvaluationFrontier;
  setup.configuration.jobs = 1;  // scenarios themselves run side by side
  return run_replay(setup, {}).map([](ReplayRuns runs) { return std::move(runs.frontier); });
}

core::Result<ScenarioEvaluation> run_scenario(const EvaluationScenario& scenario, const ReplaySetup& setup,
                                              const std::function<void(double)>& progress) {
  simulation::RunOptions options = setup.options;
  options.progress = progress;
  options.series_points = 1;
  simulation::TrialOptions trials;
  trials.step_time_factor = scenario.trial_step_time_factor;
  const auto policy = make_penstock(setup.planner, options, setup.uncertainty, trials);
  WatchedPolicy watched{*policy};
  auto result = simulation::run(setup.workload, watched, options);
  if (!result) return tl::make_unexpected(result.error());
  ScenarioEvaluation evaluation;
  evaluation.name = scenario.name;
  evaluation.workload = is_made_up(scenario) ? "made up" : scenario.workload;
  evaluation.result = *std::move(result);
  evaluation.scale_down_failures = scale_down_failures(evaluation.result);
  evaluation.invariants_broken = watched.broken();
  evaluation.first_broken = watched.first_broken();
  return evaluation;
}

}  // namespace

core::Result<TraceEvaluation> evaluate_trace(const EvaluationTrace& trace, const EvaluationScope& scope,
                                             const ShowProgress& show) {
  auto settings = settings_of(trace, scope);
  if (!settings) return tl::make_unexpected(settings.error());
  auto setup = prepare(*std::move(settings));
  if (!setup) return tl::make_unexpected(setup.error());
  auto runs = run_replay(*setup, show);
  if (!runs) return tl::make_unexpected(runs.error());
  TraceEvaluation evaluation;
  evaluation.name = trace.name;
  evaluation.title = trace.title;
  evaluation.info = std::move(setup->info);
  evaluation.day_long = trace.day_long && !scope.quick;
  evaluation.results = std::move(runs->results);
  evaluation.frontier = std::move(runs->frontier);
  return evaluation;
}

core::Result<std::vector<ScenarioEvaluation>> evaluate_scenarios(const std::vector<EvaluationScenario>& scenarios,
                                                                 const std::vector<TraceEvaluation>& traces,
                                                                 const EvaluationScope& scope,
                                                                 const ShowProgress& show) {
  std::vector<ScenarioEvaluation> evaluations(scenarios.size());
  std::vector<Task> tasks;
  for (std::size_t i = 0; i < scenarios.size(); ++i)
    tasks.push_back({scenarios[i].name, 1.0, [&, i](const std::function<void(double)>& progress) -> core::Result<void> {
                       auto settings = settings_of(scenarios[i], scope);
                       if (!settings) return tl::make_unexpected(settings.error());
                       const auto setup = prepare(*std::move(settings));
                       if (!setup) return tl::make_unexpected(setup.error());
                       auto evaluation = run_scenario(scenarios[i], *setup, progress);
                       if (!evaluation) return tl::make_unexpected(evaluation.error());
                       const auto fixed = fixed_fleets(scenarios[i], *setup, traces);
                       if (!fixed) return tl::make_unexpected(fixed.error());
                       if (!fixed->empty())
                         evaluation->frontier_points = against_frontier(evaluation->result, *fixed).points;
                       evaluations[i] = *std::move(evaluation);
                       return {};
                     }});
  if (auto done = run_tasks(tasks, scope.jobs, show); !done) return tl::make_unexpected(done.error());
  return evaluations;
}

}  // namespace penstock::evaluation
