#include "evaluation/trace_runs.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "evaluation/watch.h"
#include "replay/fixed_fleet.h"
#include "replay/planner_setup.h"
#include "simulation/clairvoyant.h"

namespace penstock::evaluation {

using decision::RunResult;
namespace {

constexpr core::Duration kFirstMinutes = std::chrono::minutes{10};
constexpr double kNearBest = 0.005;

constexpr std::array kSwept{
    SweptParameter{"hpa-rate", "utilisation", {AxisKind::kLoad, 0.1, 2.5}, 0.8},
    SweptParameter{"hpa-concurrency", "utilisation", {AxisKind::kLoad, 0.1, 2.5}, 0.8},
    SweptParameter{"keda-tokens", "utilisation", {AxisKind::kLoad, 0.1, 2.5}, 0.75},
    SweptParameter{"llmd-slo", "up", {AxisKind::kLoad, 0.06, 2.0}, 0.55},
    SweptParameter{"llmd-queue", "running", {AxisKind::kLoad, 1.0, 128.0}, 16.0, false},
    SweptParameter{"llmd-queue-guard", "running", {AxisKind::kLoad, 1.0, 128.0}, 16.0, false},
    SweptParameter{"llmd-pool-saturation", "running", {AxisKind::kLoad, 1.0, 128.0}, 16.0, false},
    SweptParameter{"llmd-token-aware", "backlog", {AxisKind::kLoad, 0.05, 30.0}, 1.5, false},
    SweptParameter{"token-velocity", "headroom", {AxisKind::kHeadroom, 0.0, 3.0}, 0.0},
    SweptParameter{"hourly-floor", "up", {AxisKind::kLoad, 0.05, 2.5}, 0.7},
    SweptParameter{"kpa", "utilisation", {AxisKind::kLoad, 0.05, 2.5}, 0.7, false},
    SweptParameter{"apa", "kv", {AxisKind::kLoad, 0.01, 1.0}, 0.5, false},
    SweptParameter{"llmd-saturation-v2", "up", {AxisKind::kLoad, 0.05, 2.0}, 0.85, false},
    SweptParameter{"dynamo-sla", "slo", {AxisKind::kLoad, 0.05, 2.0}, 1.0},
    SweptParameter{"dynamo-sla-load", "slo", {AxisKind::kLoad, 0.05, 2.0}, 1.0},
    SweptParameter{"penstock", "goal", {AxisKind::kShare, 0.8, 0.9995}, kGoal},
};

}  // namespace

const SweptParameter* swept_parameter(std::string_view policy) {
  const auto* found =
      std::find_if(kSwept.begin(), kSwept.end(), [&](const auto& each) { return each.policy == policy; });
  return found == kSwept.end() ? nullptr : found;
}

core::Result<TraceRuns> TraceRuns::prepare(configuration::Configuration settings) {
  auto setup = replay::prepare_replay(std::move(settings));
  if (!setup) return tl::make_unexpected(setup.error());
  TraceRuns runs{*std::move(setup)};
  const auto first = runs.smallest_fleet(core::kStart, core::kStart + kFirstMinutes);
  if (!first) return tl::make_unexpected(first.error());
  runs.setup_.options.pools.front().replicas = *first;
  runs.setup_.info.pools.front().replicas = *first;
  return runs;
}

core::Result<void> TraceRuns::find_capacity() {
  auto found = replay::find_capacity(setup_, 0);
  if (!found) return tl::make_unexpected(found.error());
  capacities_ = {*std::move(found)};
  return {};
}

simulation::RunOptions TraceRuns::options(const Progress& progress) const {
  simulation::RunOptions options = setup_.options;
  options.series_points = 1;
  options.progress = progress;
  return options;
}

core::Result<RunResult> TraceRuns::penstock(double goal, const Progress& progress) const {
  simulation::RunOptions options = this->options(progress);
  options.slo_goal = goal;
  const auto policy = replay::make_penstock(setup_.planner, options, setup_.uncertainty);
  return simulation::run(setup_.workload, *policy, options);
}

core::Result<RunResult> TraceRuns::clairvoyant(double goal, const Progress& progress) const {
  simulation::RunOptions options = this->options(progress);
  options.slo_goal = goal;
  const auto policy = simulation::make_clairvoyant(setup_.workload, options);
  if (!policy) return tl::make_unexpected(policy.error());
  options.progress = nullptr;  // The search was most of the work.
  return simulation::run(setup_.workload, *policy->policy, options);
}

core::Result<RunResult> TraceRuns::peer(const std::string& policy) const {
  auto made = replay::make_policy_with(capacities_, policy, setup_.options);
  if (!made) return tl::make_unexpected(made.error());
  return simulation::run(setup_.workload, **made, options({}));
}

core::Result<RunResult> TraceRuns::fixed(std::uint32_t replicas) const {
  simulation::RunOptions options = this->options({});
  simulation::PoolSpec& pool = options.pools.front();
  pool.replicas = pool.min_replicas = pool.max_replicas = replicas;
  auto still = planner::make_policy("static", {});
  return simulation::run(setup_.workload, **still, options);
}

core::Result<ScenarioEvaluation> TraceRuns::watched(double trial_step_time_factor, const Progress& progress) const {
  const simulation::RunOptions options = this->options(progress);
  simulation::TrialOptions trials;
  trials.step_time_factor = trial_step_time_factor;
  const auto policy = replay::make_penstock(setup_.planner, options, setup_.uncertainty, trials);
  WatchedPolicy watched{*policy};
  const auto result = simulation::run(setup_.workload, watched, options);
  if (!result) return tl::make_unexpected(result.error());
  const auto largest = fixed(options.pools.front().max_replicas);
  if (!largest) return tl::make_unexpected(largest.error());
  ScenarioEvaluation evaluation;
  evaluation.run = run_of(*result);
  evaluation.best_possible = std::max(largest->slo_attainment, result->slo_attainment);
  evaluation.scale_down_failures = scale_down_failures(*result);
  evaluation.invariants_broken = watched.broken();
  evaluation.first_broken = watched.first_broken();
  return evaluation;
}

core::Result<std::uint32_t> TraceRuns::smallest_fleet(core::Instant from, core::Instant until) const {
  const simulation::PoolSpec& pool = setup_.options.pools.front();
  std::map<std::uint32_t, double> tried;
  const auto attempt = [&](const replay::FleetSizes& sizes) -> core::Result<replay::FleetTrial> {
    simulation::RunOptions options = setup_.options;
    options.details = false;
    options.judged_from = from;
    options.judged_until = until;
    simulation::PoolSpec& fleet = options.pools.front();
    fleet.replicas = fleet.min_replicas = fleet.max_replicas = sizes[0];
    auto still = planner::make_policy("static", {});
    const auto result = simulation::run(setup_.workload, **still, options);
    if (!result) return tl::make_unexpected(result.error());
    tried[sizes[0]] = result->slo_attainment;
    return replay::FleetTrial{result->slo_attainment >= kGoal, result->slo_attainment};
  };
  const auto found = replay::cheapest_fleet({{pool.min_replicas, pool.max_replicas, 1.0}}, attempt);
  if (!found) return tl::make_unexpected(found.error());
  if (*found) return (**found)[0];
  const double best = std::max_element(tried.begin(), tried.end(), [](const auto& a, const auto& b) {
                        return a.second < b.second;
                      })->second;
  return std::find_if(tried.begin(), tried.end(), [&](const auto& each) { return each.second >= best - kNearBest; })
      ->first;
}

core::Instant TraceRuns::middle() const { return core::kStart + setup_.workload.span() / 2; }

}  // namespace penstock::evaluation
